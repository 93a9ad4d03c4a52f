//go:build !cgo

package confine

import "syscall"

// ownPIDs has the process see no other process.
const ownPIDs = syscall.CLONE_NEWPID
