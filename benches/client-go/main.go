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

	v1 "k8s.io/api/core/v1"
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
	url := flag.String("url", "http://127.0.0.1:18080", "")
	mode := flag.String("mode", "typed", "typed, or dynamic")
	strip := flag.Bool("strip", false, "drop managedFields")
	format := flag.String("format", "json", "json, or protobuf (typed only)")
	flag.Parse()
	cfg := &rest.Config{Host: *url, QPS: -1}
	switch *format {
	case "json":
		cfg.ContentType = "application/json"
	case "protobuf":
		if *mode != "typed" {
			fail("-format protobuf needs -mode typed: dynamic clients read JSON alone")
		}
		// What client-go's users have for built-in types.
		cfg.ContentType = "application/vnd.kubernetes.protobuf"
		cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	default:
		fail("-format is json or protobuf, not " + *format)
	}
	t0, c0 := time.Now(), cpu()
	var inf cache.SharedIndexInformer
	stop := make(chan struct{})
	if *mode == "typed" {
		f := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(cfg), 0)
		inf = f.Core().V1().Pods().Informer()
	} else {
		f := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), 0)
		inf = f.ForResource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Informer()
	}
	if *strip {
		inf.SetTransform(func(o interface{}) (interface{}, error) {
			if m, ok := o.(metav1.Object); ok {
				m.SetManagedFields(nil)
			}
			return o, nil
		})
	}
	done := make(chan struct{})
	adds, updates := 0, 0
	var lat []float64
	inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o interface{}) {
			adds++
			if o.(metav1.Object).GetName() == "zz-sentinel" {
				close(done)
			}
		},
		UpdateFunc: func(a, b interface{}) {
			updates++
			if v := b.(metav1.Object).GetAnnotations()["kubectl.kubernetes.io/restartedAt"]; len(v) == 20 && v[4] != '-' {
				if n, err := strconv.ParseInt(v, 10, 64); err == nil {
					lat = append(lat, float64(time.Now().UnixNano()-n)/1000)
				}
			}
		},
	})
	go inf.Run(stop)
	cache.WaitForCacheSync(stop, inf.HasSynced)
	t1, c1 := time.Now(), cpu()
	rss1, hwm1 := status("VmRSS"), status("VmHWM")
	<-done
	t2, c2 := time.Now(), cpu()
	rss2, hwm2 := status("VmRSS"), status("VmHWM")
	runtime.GC()
	debug.FreeOSMemory()
	time.Sleep(500 * time.Millisecond)
	fmt.Printf("client-go %s sync_s=%.3f sync_cpu_s=%.3f sync_rss_kb=%s sync_hwm_kb=%s events_s=%.3f events_cpu_s=%.3f end_rss_kb=%s end_hwm_kb=%s settled_rss_kb=%s adds=%d updates=%d stored=%d\n",
		*mode, t1.Sub(t0).Seconds(), c1-c0, rss1, hwm1, t2.Sub(t1).Seconds(), c2-c1, rss2, hwm2, status("VmRSS"), adds, updates, len(inf.GetStore().ListKeys()))
	if len(lat) > 1000 {
		lat = lat[1000:] // the first second is the backlog of the initial list
		sort.Float64s(lat)
		fmt.Printf("latency_us p50=%.0f p99=%.0f max=%.0f n=%d\n", lat[len(lat)/2], lat[len(lat)*99/100], lat[len(lat)-1], len(lat))
	}
	_ = v1.Pod{}
}
