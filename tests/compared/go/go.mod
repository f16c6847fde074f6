module example.com/compared

go 1.25.0

require (
	github.com/go-logr/logr v1.4.3
	k8s.io/api v0.35.1
	k8s.io/apimachinery v0.35.1
	sigs.k8s.io/controller-runtime v0.23.1
)
