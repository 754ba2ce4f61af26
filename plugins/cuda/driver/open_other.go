//go:build !linux

package driver

import "errors"

func openLibrary() (l library, missing []string, err error) {
	return nil, nil, errors.New("this backend is for Linux")
}
