package driver

import (
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/metal/msl"
)

// pipeline is a compiled kernel.
type pipeline struct {
	mtlComputePipelineState
	threads int // in a threadgroup
	shared  int // bytes of threadgroup memory, a multiple of 16, as Metal requires
	buffers int // without the buffer that holds the sizes
}

func (p *pipeline) Release() {
	defer pool()()
	free(p.mtlComputePipelineState)
}

// Compile compiles the sources in parallel, on all cores. For a pipeline that is in the archive, only the source text
// is compiled to a library, because Metal does not archive libraries.
func (d *opened) Compile(sources []gpu.Source) (made []gpu.Pipeline, failed int, err error) {
	d.archiving.Lock()
	defer d.archiving.Unlock()
	if d.archive == nil {
		d.archive = d.openArchive()
	}
	made = make([]gpu.Pipeline, len(sources))
	errs := make([]error, len(sources))
	missed := make([]mtlComputePipelineDescriptor, len(sources))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, s := range sources {
		g.Go(func() error {
			p, missing, err := d.compile(s)
			errs[i], missed[i] = err, missing
			if err == nil {
				made[i] = p
			}
			return nil
		})
	}
	_ = g.Wait()
	d.archive.add(missed)
	for i, err := range errs {
		if err != nil {
			return made, i, err
		}
	}
	return made, 0, nil
}

// compile returns the pipeline of a source. If the pipeline should be added to the archive, missing is its descriptor,
// which the caller must free; otherwise missing is 0.
func (d *opened) compile(s gpu.Source) (p *pipeline, missing mtlComputePipelineDescriptor, err error) {
	k, err := msl.Translate(s.Text)
	if err != nil {
		return nil, 0, fmt.Errorf("%w, of\n%s", err, s.Text)
	}
	defer pool()()
	options := newCompileOptions.to(classCompileOptions.object())
	defer free(options)
	precise(options)
	library, err := try(
		func(e nsErrorAddress) mtlLibrary { return newLibrary.to(d.mtlDevice, toNSString(k.Text), options, e) })
	if err != nil {
		return nil, 0, fmt.Errorf("the kernel is refused by Metal: %w", err)
	}
	defer free(library)
	f := newFunction.to(library, toNSString(k.Entry))
	if f == 0 {
		return nil, 0, fmt.Errorf("the library that Metal made has no function %s", k.Entry)
	}
	defer free(f)
	settings := newPipelineSettings.to(classPipelineDescriptor.object())
	setComputeFunction.to(settings, f)
	setMaxThreads.to(settings, nsUInteger(k.Threads))
	state, missed := d.archive.find(settings)
	if state == 0 {
		state, err = d.pipelineState(settings, pipelineOptionNone)
	}
	p = &pipeline{state, k.Threads, (k.Shared + 15) &^ 15, k.Buffers}
	if err == nil {
		if most := int(maxThreads.to(state)); most < k.Threads {
			free(state)
			err = fmt.Errorf("the kernel has %d threads in a threadgroup; %s runs at most %d threads of this kernel",
				k.Threads, d.info.Name, most)
		} else if width := executionWidth.to(state); k.Matrices && width != 32 {
			free(state)
			err = fmt.Errorf("the kernel has matrices for simdgroups of 32 threads; %s has simdgroups of %d",
				d.info.Name, width)
		}
	}
	if err != nil || !missed {
		free(settings)
		settings = 0
	}
	return p, settings, err
}

func (d *opened) pipelineState(settings mtlComputePipelineDescriptor, options nsUInteger) (
	mtlComputePipelineState, error) {
	return try(func(e nsErrorAddress) mtlComputePipelineState {
		return newPipelineState.to(d.mtlDevice, settings, options, 0, e)
	})
}

// precise selects IEEE arithmetic. macOS 15 replaced the setting for it by two others.
func precise(o mtlCompileOptions) {
	if respondsToSelector.to(nsObject(o), (*message)(setMathMode).sel()) == 0 {
		setFastMathEnabled.to(o, 0)
		return
	}
	setMathMode.to(o, mathModeSafe)
	setMathFunctions.to(o, mathFloatingPointFunctionsPrecise)
}
