package driver

import (
	"os"
	"path/filepath"
)

// archive is a cache of compiled pipelines, stored in one file in the user's cache directory. Errors of the cache are
// ignored: a pipeline that cannot be read is compiled, and one that cannot be stored is compiled again by the next
// process. An archive whose objects are 0 caches nothing.
type archive struct {
	d       *opened
	objects mtlBinaryArchive
	list    nsArray // contains only objects; pipeline descriptors take an array
	path    string
}

// largestArchive is the size in bytes from which a file is replaced instead of read. Pipelines of earlier versions of
// the kernels are never removed from a file, so it would grow without bound.
const largestArchive = 256 << 20

// openArchive opens the archive in the cache folder, or starts an empty one if the file does not exist, is too large,
// or is rejected by Metal.
func (d *opened) openArchive() *archive {
	a := &archive{d: d}
	if d.cache == "" || os.MkdirAll(d.cache, 0o755) != nil {
		return a
	}
	a.path = filepath.Join(d.cache, filepath.Base(d.info.Name)+".archive")
	defer pool()()
	settings := newArchiveSettings.to(classArchiveDescriptor.object())
	defer free(settings)
	open := func() (mtlBinaryArchive, error) {
		return try(func(e nsErrorAddress) mtlBinaryArchive { return newArchive.to(d.mtlDevice, settings, e) })
	}
	var err error
	if file, missing := os.Stat(a.path); missing == nil && file.Size() < largestArchive {
		setURL.to(settings, fileURLWithPath.to(classNSURL.object(), toNSString(a.path)))
		if a.objects, err = open(); err != nil {
			setURL.to(settings, 0)
		}
	}
	if a.objects == 0 {
		a.objects, _ = open()
	}
	if a.objects != 0 {
		a.list = retained(arrayWithObject.to(nsArray(classNSArray.object()), nsObject(a.objects)))
	}
	return a
}

// find returns the pipeline for a descriptor, or 0 if the archive does not contain it. missed reports that the caller
// should compile the pipeline and add it to the archive; it is false if there is no archive.
func (a *archive) find(settings mtlComputePipelineDescriptor) (p mtlComputePipelineState, missed bool) {
	if a.objects == 0 {
		return 0, false
	}
	setBinaryArchives.to(settings, a.list)
	p, err := a.d.pipelineState(settings, pipelineOptionFailOnArchiveMiss)
	if err != nil {
		setBinaryArchives.to(settings, 0)
	}
	return p, err != nil
}

// add adds the pipelines of the descriptors that are not 0, frees these descriptors, and rewrites the file.
func (a *archive) add(settings []mtlComputePipelineDescriptor) {
	defer pool()()
	changed := false
	for _, s := range settings {
		if s == 0 {
			continue
		}
		_, err := try(func(e nsErrorAddress) boolean { return addToArchive.to(a.objects, s, e) })
		changed = changed || err == nil
		free(s)
	}
	if !changed {
		return
	}
	// renamed once it is complete, because other processes may read the file
	f, err := os.CreateTemp(filepath.Dir(a.path), "archive")
	if err != nil {
		return
	}
	f.Close()
	_, err = try(func(e nsErrorAddress) boolean {
		return serializeToURL.to(a.objects, fileURLWithPath.to(classNSURL.object(), toNSString(f.Name())), e)
	})
	if err == nil {
		err = os.Rename(f.Name(), a.path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
}
