//go:build linux

package qemu

import "hutch/fs/loneuser"

// A user is whom a machine's process belongs to.
type user struct {
	id     uint32 // 0: this process' own
	groups []uint32
}

// owner returns the user for the machine in dir.
func owner(dir string) user {
	u := user{id: loneuser.Of(dir)}
	if u.id != 0 {
		u.groups = kvmGroups()
	}
	return u
}

// String says whose the process is: the machine's own user's, or hutchd's.
func (u user) String() string {
	switch u.id {
	case 0:
		return "hutchd"
	case loneuser.Nobody:
		return "nobody"
	}
	return "own"
}
