//go:build !linux

package fuse

import (
	gofs "github.com/hanwen/go-fuse/v2/fs"

	"hutch/fs/node"
)

// Elsewhere than on Linux a folder of the host is served by its node, as
// everything else is.

func (s *Server) hostTop(node.Node) (gofs.InodeEmbedder, bool) { return nil, false }

func (s *Server) host(node.Node) (gofs.InodeEmbedder, uint64, bool) { return nil, 0, false }

type pins struct{}

func (*pins) close() {}
