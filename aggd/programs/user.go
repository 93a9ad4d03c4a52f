package programs

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// homeDir returns the home of who starts programs.
func homeDir() string {
	if u, err := user.Current(); err == nil {
		return cmp.Or(u.HomeDir, "/")
	}
	return "/"
}

// runAs returns what has a program run as the user called name, with the groups of
// that user, and the user's home. Root can start programs as anybody, others only as
// themselves: then the credential is nil.
func runAs(name string) (*syscall.Credential, string, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, "", fmt.Errorf("run_as %s: there is no such user", name)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := cmp.Or(err1, err2); err != nil {
		return nil, "", fmt.Errorf("run_as %s: %w", name, err)
	}
	home := cmp.Or(u.HomeDir, "/")
	switch me := os.Geteuid(); {
	case me == int(uid):
		return nil, home, nil
	case me != 0:
		return nil, "", fmt.Errorf("run_as %s: hutchd is user %d, and only root can start programs as somebody else", name, me)
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, "", fmt.Errorf("run_as %s: its groups: %w", name, err)
	}
	c := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	for _, text := range ids {
		if id, err := strconv.ParseUint(text, 10, 32); err == nil {
			c.Groups = append(c.Groups, uint32(id))
		}
	}
	return c, home, nil
}
