package rlx_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/rlx-go/rlx"
)

// The artifact describes the inputs and outputs of its methods.
func ExampleModel_Methods() {
	model, err := rlx.Open(context.Background(), demoModel(), rlx.OpenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	fmt.Println(model.Facts().Name, model.Facts().Precisions)
	for _, method := range model.Methods() {
		fmt.Println(method.Name)
		for _, v := range method.Inputs {
			fmt.Println("  takes", v)
		}
		for _, v := range method.Outputs {
			fmt.Println("  gives", v)
		}
		for _, s := range method.Symbols {
			fmt.Printf("  where %s is %d to %d\n", s.Name, s.Min, s.Max)
		}
	}
	// Output:
	// sam-nano [f32 bf16 f16]
	// encode
	//   takes image f32[1,3,256,256]
	//   gives embeddings f32[1,128,32,32]
	// decode
	//   takes embeddings f32[1,128,32,32]
	//   takes points f32[1,N,2]
	//   takes labels i32[1,N]
	//   takes mask f32[1,1,128,128] (optional)
	//   gives low_res_masks f32[1,4,128,128]
	//   gives iou f32[1,4]
	//   where N is 1 to 64
	// decode_batch
	//   takes embeddings f32[1,128,32,32]
	//   takes points f32[P,N,2]
	//   takes labels i32[P,N]
	//   gives low_res_masks f32[P,4,128,128]
	//   gives iou f32[P,4]
	//   where N is 1 to 64
	//   where P is 1 to 8
}

// Inputs and outputs are tensors with names.
func ExampleSession_Run() {
	ctx := context.Background()
	session, err := rlx.Load(ctx, demoModel(), "cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	pixels, err := rlx.NewTensor(make([]float32, 3*256*256), 1, 3, 256, 256)
	if err != nil {
		log.Fatal(err)
	}
	result, err := session.Run(ctx, rlx.Request{Method: "encode", Inputs: map[string]rlx.Tensor{"image": pixels}})
	if err != nil {
		log.Fatal(err)
	}
	embeddings, err := rlx.Values[float32](result.Outputs["embeddings"])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Outputs["embeddings"], len(embeddings))
	// Output: f32[1,128,32,32] 131072
}

// If a backend is lost, calls return an error. The model is still usable.
func ExampleSession_Done() {
	ctx := context.Background()
	model, err := rlx.Open(ctx, demoModel(), rlx.OpenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	os.Setenv("RLX_CRASHES_FAULT", "crash") // the backend of this test ends its process during a run
	defer os.Unsetenv("RLX_CRASHES_FAULT")
	session, err := model.NewSession(ctx, rlx.Options{Backend: faultyBackend("crashes")})
	if err != nil {
		log.Fatal(err)
	}
	request := rlx.Request{Method: "encode", Inputs: map[string]rlx.Tensor{
		"image": {DType: rlx.F32, Shape: []int{1, 3, 256, 256}, Data: make([]byte, 4*3*256*256)}}}
	_, err = session.Run(ctx, request)
	if errors.Is(err, rlx.ErrLost) {
		<-session.Done() // a program may wait for it in a select
		session.Close()
		fmt.Println("lost, another one is started")
		session, err = model.NewSession(ctx, rlx.Options{Backend: cpu()})
		if err != nil {
			log.Fatal(err)
		}
	}
	defer session.Close()
	result, err := session.Run(ctx, request)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Outputs["embeddings"])
	// Output:
	// lost, another one is started
	// f32[1,128,32,32]
}

// A state holds the data that a model keeps from run to run. Here these are rows and the number of rows that were
// appended.
func ExampleSession_NewState() {
	ctx := context.Background()
	session, err := rlx.Load(ctx, cacheModel(), "cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	for _, v := range session.Model().States() {
		fmt.Println("keeps", v)
	}
	state, err := session.NewState(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer state.Close()
	for i := range int32(3) {
		rows, _ := rlx.NewTensor([]float32{1, 2}, 1, 2)
		pos, _ := rlx.NewTensor([]int32{i})
		result, err := session.Run(ctx, rlx.Request{Method: "append", State: state,
			Inputs: map[string]rlx.Tensor{"rows": rows, "pos": pos}, Outputs: []string{"after"}})
		if err != nil {
			log.Fatal(err)
		}
		sum, _ := rlx.Values[float32](result.Outputs["after"])
		fmt.Println("sum of the cache:", sum[0])
	}
	// Output:
	// keeps cache f32[8,2]
	// keeps runs f32[1]
	// sum of the cache: 10
	// sum of the cache: 12
	// sum of the cache: 14
}
