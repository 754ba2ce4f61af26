package main

import (
	"errors"
	"io/fs"
	"os"
)

// newFolders are the folders that a command makes. If the command fails, folders that are still empty are removed.
type newFolders []string

// missing returns those of the folders that do not exist yet.
func missing(dirs ...string) (list newFolders) {
	for _, dir := range dirs {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			list = append(list, dir)
		}
	}
	return list
}

// tidy removes the folders that are empty if the command has failed.
func (n newFolders) tidy(err error) {
	if err == nil {
		return
	}
	for _, dir := range n {
		os.Remove(dir) // fails if something is in it, or if it was not made
	}
}
