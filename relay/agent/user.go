package agent

import (
	"fmt"
	"math"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"hutch/fs"
)

// A login is whom a command runs as.
type login struct {
	name, home string
	credential *syscall.Credential // nil: as the agent
}

// parseLogin reads UID or a name of /etc/passwd, with :GID or :NAME of a group or
// without; "" is the agent's own user.
func parseLogin(s string) (login, error) {
	if s == "" {
		u := known(strconv.Itoa(os.Getuid()))
		return login{name: u.Username, home: u.HomeDir}, nil
	}
	name, group, grouped := strings.Cut(s, ":")
	u, err := user.Lookup(name)
	if err != nil {
		if _, nerr := strconv.ParseUint(name, 10, 32); nerr != nil {
			return login{}, fmt.Errorf("%w: user %q is not known here", fs.ErrInvalid, name)
		}
		u = known(name)
	}
	if !grouped {
		group = u.Gid
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	if g, err := user.LookupGroup(group); grouped && err == nil {
		group = g.Gid
	}
	gid, err := strconv.ParseUint(group, 10, 32)
	switch {
	case err != nil:
		return login{}, fmt.Errorf("%w: group %q is not known here", fs.ErrInvalid, group)
	case max(uid, gid) == noUser:
		return login{}, fmt.Errorf("%w: user %q: no user or group has the number %d", fs.ErrInvalid, s, noUser)
	}
	c := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if os.Getuid() == 0 {
		c.Groups = groups(u, grouped)
	} else {
		c.NoSetGroups = true
	}
	return login{name: u.Username, home: u.HomeDir, credential: c}, nil
}

// noUser is the number that stands for none in calls of the kernel.
const noUser uint64 = math.MaxUint32

// known returns the user with a number, made up if passwd has no such entry.
func known(uid string) *user.User {
	if u, err := user.LookupId(uid); err == nil {
		return u
	}
	return &user.User{Uid: uid, Gid: uid, Username: uid, HomeDir: "/"}
}

// groups returns a user's further groups, none if its group was given.
func groups(u *user.User, given bool) []uint32 {
	if given {
		return nil
	}
	ids, _ := u.GroupIds()
	var list []uint32
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			list = append(list, uint32(n))
		}
	}
	return list
}
