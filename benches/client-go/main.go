// The client-go side of the comparison in docs/PERFORMANCE.md: a shared informer of Pods against the replay server.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func status(key string) string {
	b, _ := os.ReadFile("/proc/self/status")
	for _, l := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(l, key+":") {
			return strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(l, key+":"), " kB"))
		}
	}
	return ""
}

func cpu() float64 {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(2)
}

func main() {
	server := flag.String("server", "http://127.0.0.1:8001", "the server's URL")
	form := flag.String("form", "typed", "typed, typed-pruned (without managedFields), typed-protobuf or dynamic")
	initial := flag.String("initial", "stream", "how the first state is fetched: stream or list")
	flag.Parse()
	if *initial == "list" {
		os.Setenv("KUBE_FEATURE_WatchListClient", "false")
	}
	cfg := &rest.Config{Host: *server, QPS: -1}
	// The replay server's certificate is new at each start.
	cfg.Insecure = strings.HasPrefix(*server, "https://127.0.0.1:")
	cfg.ContentType = "application/json"
	switch *form {
	case "typed", "typed-pruned", "dynamic":
	case "typed-protobuf":
		// What client-go's users have for built-in types.
		cfg.ContentType = "application/vnd.kubernetes.protobuf"
		cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	default:
		fail("-form " + *form + " is unknown")
	}
	t0, c0 := time.Now(), cpu()
	var inf cache.SharedIndexInformer
	stop := make(chan struct{})
	if *form != "dynamic" {
		f := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(cfg), 0)
		inf = f.Core().V1().Pods().Informer()
	} else {
		f := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), 0)
		inf = f.ForResource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Informer()
	}
	if *form == "typed-pruned" {
		inf.SetTransform(func(o interface{}) (interface{}, error) {
			if m, ok := o.(metav1.Object); ok {
				m.SetManagedFields(nil)
			}
			return o, nil
		})
	}
	done := make(chan struct{})
	adds, updates := 0, 0
	var first time.Time
	var cFirst float64
	var lat []float64
	handler, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o interface{}) {
			adds++
			if o.(metav1.Object).GetName() == "zz-sentinel" {
				close(done)
			}
		},
		UpdateFunc: func(a, b interface{}) {
			if updates++; updates == 1 {
				first, cFirst = time.Now(), cpu()
			}
			if v := b.(metav1.Object).GetAnnotations()["kubectl.kubernetes.io/restartedAt"]; len(v) == 20 && v[4] != '-' {
				if n, err := strconv.ParseInt(v, 10, 64); err == nil {
					lat = append(lat, float64(time.Now().UnixNano()-n)/1000)
				}
			}
		},
	})
	if err != nil {
		fail(err.Error())
	}
	go inf.Run(stop)
	// WaitForCacheSync looks ten times a second only.
	for !handler.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	t1, c1 := time.Now(), cpu()
	rss1, hwm1 := status("VmRSS"), status("VmHWM")
	<-done
	t2, c2 := time.Now(), cpu()
	rss2, hwm2 := status("VmRSS"), status("VmHWM")
	runtime.GC()
	debug.FreeOSMemory()
	time.Sleep(500 * time.Millisecond)
	fmt.Printf("client-go %s sync_s=%.3f sync_cpu_s=%.3f sync_rss_kb=%s sync_hwm_kb=%s events_s=%.3f events_cpu_s=%.3f end_rss_kb=%s end_hwm_kb=%s settled_rss_kb=%s adds=%d updates=%d stored=%d\n",
		*form, t1.Sub(t0).Seconds(), c1-c0, rss1, hwm1, t2.Sub(first).Seconds(), c2-cFirst, rss2, hwm2, status("VmRSS"), adds, updates, len(inf.GetStore().ListKeys()))
	if len(lat) > 1000 {
		lat = lat[1000:] // the first second is the backlog of the initial list
		sort.Float64s(lat)
		fmt.Printf("latency_us p50=%.0f p99=%.0f max=%.0f n=%d\n", lat[len(lat)/2], lat[len(lat)*99/100], lat[len(lat)-1], len(lat))
	}
}
