//go:build !linux

package fuse

import (
	"context"

	gofs "github.com/hanwen/go-fuse/v2/fs"

	"hutch/fs"
)

// Elsewhere than on Linux a folder of the host is served by its node, as
// everything else is.

func (s *Server) hostTop(fs.Node) (gofs.InodeEmbedder, bool) { return nil, false }

func (s *Server) host(fs.Node) (gofs.InodeEmbedder, uint64, bool) { return nil, 0, false }

// idle is not known.
func idle(context.Context) bool { return false }

type writers struct{}

// A HostFile is a file of a host folder.
type HostFile struct {
	Path     string // in the tree
	Dev, Ino uint64 // on the host
}

type fdCache struct{}

func (*fdCache) close() {}

type watch struct{}

func (*watch) close() {}

// Settle has nothing to do where no folder of the host is kept.
func (s *Server) Settle() bool { return true }
