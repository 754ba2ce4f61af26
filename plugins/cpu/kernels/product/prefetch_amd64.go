package product

import "github.com/rlx-go/rlx/plugins/cpu/kernels/stored"

// prefetchAhead is stored.PrefetchAhead, for assembly.
//
//lint:ignore U1000 only assembly reads it
var prefetchAhead = stored.PrefetchAhead()
