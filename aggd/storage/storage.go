// Package storage says what a place for a workspace's files can do. There are
// two: a folder of the host, which package workspace has, and a bucket of storage
// that speaks S3, which package s3 has, in a process of its own; package remote is
// hutchd's side of that.
//
// It is AEGIS's StorageProvider in terms of Go. What is opened, read or written
// and closed there is one request here, since storage of objects knows no open
// files: open_file, read_at and close_file are Read, with write_at or
// create_file they are Write. Delete_file is Remove, readdir and
// list_directories are List, stat is Stat. Set_quota is the quota of a Bucket,
// and get_usage what that counts before a write. No tool has a use for
// create_directory, delete_directory, rename and health_check: they are missing.
package storage

import (
	"context"
	"time"
)

// A Storage keeps files. Names are as os.Root takes them, with slashes, "."
// for the top folder. Its methods may be called concurrently. What is wrong is
// told by the errors of package fs of the standard library, where one fits.
type Storage interface {
	// Read returns up to n bytes of a file from offset off, and what it is.
	Read(ctx context.Context, name string, off, n int64) ([]byte, Info, error)
	// Write makes data what a file holds. Missing folders are made.
	Write(ctx context.Context, name string, data []byte, how How) error
	// Replace makes data what a file holds of which Read told was. It fails where
	// there is none, and, of storage that has tags, where that is not what it holds.
	Replace(ctx context.Context, name string, data []byte, was Info) error
	// Stat says what a name is. It does not follow a symbolic link.
	Stat(ctx context.Context, name string) (Info, error)
	// List returns what is in a folder, by name. More says that there was more
	// than most, and something was left out.
	List(ctx context.Context, name string, most int) (list []Info, more bool, err error)
	// Remove removes a file or a link.
	Remove(ctx context.Context, name string) error
}

// How says what a Write does where there is a file, or none.
type How string

// What a Write can do.
const (
	Whatever How = ""    // make it, or replace what it holds
	New      How = "new" // make it; fail where there is one
)

// The kinds of what a name is, as tools tell them.
const (
	File   = "file"
	Folder = "dir"
	Link   = "symlink"
)

// Info says what a name is.
type Info struct {
	Name string    `json:"name"` // the last part of it
	Kind string    `json:"kind"`
	Size int64     `json:"size"`
	Time time.Time `json:"time"`          // of the last change
	Tag  string    `json:"tag,omitempty"` // another when it holds something else; "": nobody knows
}
