package vsock

import "github.com/mdlayher/vsock"

// InGuest says whether this machine is a guest that can dial its host.
func InGuest() bool {
	cid, err := vsock.ContextID()
	return err == nil && cid >= firstCID && cid != anyCID
}

const anyCID = 1<<32 - 1
