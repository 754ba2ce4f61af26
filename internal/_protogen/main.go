// Protogen generates Go code from a definition of protobuf messages. It compiles the file with bufbuild/protocompile
// and runs protoc-gen-go and the like as tools of this module, so it needs only Go and not protoc.
//
//	go run . -proto FILE -name NAME -out FOLDER -opt OPTIONS [-set FILE] TOOL...
//
// Paths are relative to the root of the repository. Files that a tool generates are relative to FOLDER.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

var (
	source  = flag.String("proto", "", "the definition")
	name    = flag.String("name", "", "the name of the file in its descriptor")
	folder  = flag.String("out", "", "the folder for generated files")
	options = flag.String("opt", "", "options of the tools")
	set     = flag.String(
		"set", "",
		"also write the descriptors to this file, without comments, for programs that read them when they run")
)

const root = "../.."

func main() {
	log.SetFlags(0)
	flag.Parse()
	if err := run(context.Background(), flag.Args()); err != nil {
		log.Fatal("protogen: ", err)
	}
}

func run(ctx context.Context, tools []string) error {
	c := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: open}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(ctx, *name)
	if err != nil {
		return err
	}
	var protos []*descriptorpb.FileDescriptorProto // imports before the files that use them
	imports := files[0].Imports()
	for i := range imports.Len() {
		protos = append(protos, protoutil.ProtoFromFileDescriptor(imports.Get(i).FileDescriptor))
	}
	protos = append(protos, protoutil.ProtoFromFileDescriptor(files[0]))
	if *set != "" {
		if err := describe(protos); err != nil {
			return err
		}
	}
	request, err := proto.Marshal(
		&pluginpb.CodeGeneratorRequest{FileToGenerate: []string{*name}, Parameter: options, ProtoFile: protos})
	if err != nil {
		return err
	}
	for _, tool := range tools {
		if err := generate(ctx, tool, request); err != nil {
			return fmt.Errorf("%s: %w", tool, err)
		}
	}
	return nil
}

// open opens the definition, which is the only file that is not an import of the standard library of protobuf.
func open(file string) (io.ReadCloser, error) {
	if file != *name {
		return nil, os.ErrNotExist
	}
	return os.Open(filepath.Join(root, *source))
}

// describe writes the descriptors.
func describe(protos []*descriptorpb.FileDescriptorProto) error {
	list := &descriptorpb.FileDescriptorSet{}
	for _, p := range protos {
		p = proto.Clone(p).(*descriptorpb.FileDescriptorProto)
		p.SourceCodeInfo = nil
		list.File = append(list.File, p)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(list)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, *set), b, 0o644)
}

func generate(ctx context.Context, tool string, request []byte) error {
	cmd := exec.CommandContext(ctx, "go", "tool", tool)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, f := range response.File {
		if err := os.WriteFile(filepath.Join(root, *folder, filepath.FromSlash(f.GetName())), []byte(f.GetContent()),
			0o644); err != nil {
			return err
		}
	}
	return nil
}
