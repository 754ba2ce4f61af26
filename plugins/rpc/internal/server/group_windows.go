package server

import "os"

// endGroup ends this process. The host's job object, which ends with the host, has ended what it started.
func endGroup() { os.Exit(1) }
