// Each Namespace that has a label `team` has a ConfigMap `team` with its value.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/runtime"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

type controller struct {
	client     kubernetes.Interface
	namespaces corelisters.NamespaceLister
	queue      workqueue.TypedRateLimitingInterface[string]
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		panic(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		panic(err)
	}
	labelled := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "team" }))
	own := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "made-by=teams" }))
	namespaces := labelled.Core().V1().Namespaces()
	maps := own.Core().V1().ConfigMaps()
	c := &controller{
		client:     client,
		namespaces: namespaces.Lister(),
		queue:      workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	namespacesHandler, err := namespaces.Informer().AddEventHandler(handler(c.enqueue))
	if err != nil {
		panic(err)
	}
	mapsHandler, err := maps.Informer().AddEventHandler(handler(c.enqueueOwner))
	if err != nil {
		panic(err)
	}
	labelled.Start(ctx.Done())
	own.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), namespacesHandler.HasSynced, mapsHandler.HasSynced) {
		return
	}
	var workers sync.WaitGroup
	for range 4 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for c.next(ctx) {
			}
		}()
	}
	<-ctx.Done()
	c.queue.ShutDownWithDrain()
	workers.Wait()
}

func handler(put func(any)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: put,
		UpdateFunc: func(old, new any) {
			put(old)
			put(new)
		},
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			put(obj)
		},
	}
}

func (c *controller) enqueue(obj any) {
	if namespace, ok := obj.(*corev1.Namespace); ok {
		c.queue.Add(namespace.Name)
	}
}

func (c *controller) enqueueOwner(obj any) {
	object, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == "Namespace" {
		c.queue.Add(owner.Name)
	}
}

func (c *controller) next(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	if err := c.reconcile(ctx, key); err != nil {
		runtime.HandleError(fmt.Errorf("%s: %w", key, err))
		c.queue.AddRateLimited(key)
		return true
	}
	c.queue.Forget(key)
	return true
}

func (c *controller) reconcile(ctx context.Context, name string) error {
	namespace, err := c.namespaces.Get(name)
	if errors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	wanted := applycorev1.ConfigMap("team", name).
		WithLabels(map[string]string{"made-by": "teams"}).
		WithOwnerReferences(applymetav1.OwnerReference().
			WithAPIVersion("v1").
			WithKind("Namespace").
			WithName(namespace.Name).
			WithUID(namespace.UID).
			WithController(true)).
		WithData(map[string]string{"team": namespace.Labels["team"]})
	options := metav1.ApplyOptions{FieldManager: "teams", Force: true}
	_, err = c.client.CoreV1().ConfigMaps(name).Apply(ctx, wanted, options)
	return err
}
