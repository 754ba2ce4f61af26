// Protogen generates rlxv1 and the descriptor set for sdk/python from spec/backend.proto. It compiles the file with
// bufbuild/protocompile and runs protoc-gen-go and protoc-gen-go-grpc as tools of this module, so it needs only Go and
// not protoc.
package main

import (
	"bytes"
	"context"
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

const (
	source  = "rlx/v1/backend.proto" // the name of the file in its descriptor
	folder  = ".."                   // plugins/rpc; generated file names are relative to it
	modFlag = "module=github.com/rlx-go/rlx/plugins/rpc"
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal("protogen: ", err)
	}
}

func run(ctx context.Context) error {
	c := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: open}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(ctx, source)
	if err != nil {
		return err
	}
	var protos []*descriptorpb.FileDescriptorProto // imports before the files that use them
	imports := files[0].Imports()
	for i := range imports.Len() {
		protos = append(protos, protoutil.ProtoFromFileDescriptor(imports.Get(i).FileDescriptor))
	}
	protos = append(protos, protoutil.ProtoFromFileDescriptor(files[0]))
	if err := describe(protos); err != nil {
		return err
	}
	request, err := proto.Marshal(
		&pluginpb.CodeGeneratorRequest{FileToGenerate: []string{source}, Parameter: proto.String(modFlag),
			ProtoFile: protos})
	if err != nil {
		return err
	}
	for _, tool := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := generate(ctx, tool, request); err != nil {
			return fmt.Errorf("%s: %w", tool, err)
		}
	}
	return nil
}

// open opens the definition, which is the only file that is not an import of the standard library of protobuf.
func open(name string) (io.ReadCloser, error) {
	if name != source {
		return nil, os.ErrNotExist
	}
	return os.Open(filepath.Join(folder, "..", "..", "spec", "backend.proto"))
}

// describe writes the compiled definition, without comments, for SDKs that read it at run time.
func describe(protos []*descriptorpb.FileDescriptorProto) error {
	set := &descriptorpb.FileDescriptorSet{}
	for _, p := range protos {
		p = proto.Clone(p).(*descriptorpb.FileDescriptorProto)
		p.SourceCodeInfo = nil
		set.File = append(set.File, p)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "..", "..", "sdk", "python", "rlx_backend", "backend.binpb"), b, 0o644)
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
		if err := os.WriteFile(filepath.Join(folder, filepath.FromSlash(f.GetName())), []byte(f.GetContent()),
			0o644); err != nil {
			return err
		}
	}
	return nil
}
