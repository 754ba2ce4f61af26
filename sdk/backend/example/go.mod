module example.com/rlx-backend-example

go 1.26.0

require github.com/rlx-go/rlx v0.1.0

replace github.com/rlx-go/rlx => ../../.. // remove this line outside of the repository, and run go mod tidy
