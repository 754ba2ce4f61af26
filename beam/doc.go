// Package rlxbeam runs compiled models (.rlx files) in pipelines of Apache Beam, on any number of machines. Segment,
// Embed, Generate and Run are transforms of PCollections:
//
//	model := rlxbeam.Model{Path: "/models/sam.rlx"}
//	images, unread := rlxbeam.ReadImages(s, "/photos", "**")
//	found, failed := rlxbeam.Segment(s, model, rlxbeam.SegmentOptions{Everything: true}, images)
//	rlxbeam.WriteFolders(s, "/masks", found)
//
// Each transform has two results: what the model gave, and a PCollection<Failure> with the inputs that the model does
// not take. Such an input does not end the pipeline. Any other error, such as a lost backend, fails the bundle, and the
// runner repeats it.
//
// A worker process opens each Model once, starts one backend for it, and keeps both for all bundles, which share the
// session. A backend that was lost is replaced.
//
// A transform gives the same result for an input whatever else is in the bundle, so that a repeated bundle gives the
// same bytes. WriteFolders and WriteLines give files names that follow from the inputs, and a file appears only when it
// is complete. So a repeated bundle replaces a file by the same file.
//
// The artifact and the backend must be on every worker, at the same path. docs/scale.md says how to bring them there.
package rlxbeam
