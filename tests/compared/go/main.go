// The programs whose cost is measured, on controller-runtime: a manager with one controller, of Sites or of
// Pods. Each run reads its object from the cache, and writes one byte.
package main

import (
	"context"
	"log"
	"maps"
	"os"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

type SiteSpec struct {
	Image    string            `json:"image"`
	Replicas int               `json:"replicas"`
	Settings map[string]string `json:"settings,omitempty"`
}

type SiteStatus struct {
	Ready              int                `json:"ready"`
	ObservedGeneration int64              `json:"observedGeneration"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              SiteSpec   `json:"spec"`
	Status            SiteStatus `json:"status"`
}

func (s *Site) DeepCopyObject() runtime.Object {
	copied := *s
	s.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Spec.Settings = maps.Clone(s.Spec.Settings)
	copied.Status.Conditions = slices.Clone(s.Status.Conditions)
	return &copied
}

type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Site `json:"items"`
}

func (l *SiteList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = make([]Site, len(l.Items))
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopyObject().(*Site)
	}
	return &copied
}

type reconciler struct {
	reader client.Reader
	empty  func() client.Object
	runs   *os.File
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if err := r.reader.Get(ctx, request.NamespacedName, r.empty()); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	_, err := r.runs.WriteString(".")
	return ctrl.Result{}, err
}

func run() error {
	runs, err := os.OpenFile(os.Getenv("RUNS"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	ctrllog.SetLogger(logr.Discard())
	version := schema.GroupVersion{Group: "example.com", Version: "v1"}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	scheme.AddKnownTypes(version, &Site{}, &SiteList{})
	metav1.AddToGroupVersion(scheme, version)

	options := ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), options)
	if err != nil {
		return err
	}
	empty := func() client.Object { return &Site{} }
	if os.Getenv("KIND") == "pods" {
		empty = func() client.Object { return &corev1.Pod{} }
	}
	reconciler := &reconciler{manager.GetClient(), empty, runs}
	if err := ctrl.NewControllerManagedBy(manager).For(empty()).Complete(reconciler); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
