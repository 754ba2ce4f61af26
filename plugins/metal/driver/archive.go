package driver

import (
	"os"
	"path/filepath"
)

// archive has compiled pipelines, in a file of the user's cache. Whatever fails with it is ignored: the pipelines are compiled then. The zero value
// keeps nothing.
type archive struct {
	d       *opened
	objects mtlBinaryArchive
	list    nsArray // of objects alone, for descriptors
	path    string
}

// largestArchive is the size at which an archive starts anew: pipelines of earlier versions are never removed from it.
const largestArchive = 256 << 20

// openArchive reads the file, if it is there and Metal accepts it. Otherwise it is replaced.
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

// find returns a pipeline of the archive. missed reports that it should be added: there is an archive, which lacks it.
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

// add adds pipelines, frees their descriptors, of which some are 0, and writes the file anew.
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
	f, err := os.CreateTemp(filepath.Dir(a.path), "archive") // renamed when it is whole: other processes read the file
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
