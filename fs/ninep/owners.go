package ninep

import (
	"os/user"
	"strconv"
	"sync"
)

// owners knows the names of users and groups by number.
type owners struct {
	users, groups sync.Map // uint32 to string
}

func (w *owners) user(uid uint32) string {
	return lookup(&w.users, uid, func(id string) string {
		if u, err := user.LookupId(id); err == nil {
			return u.Username
		}
		return ""
	})
}

func (w *owners) group(gid uint32) string {
	return lookup(&w.groups, gid, func(id string) string {
		if g, err := user.LookupGroupId(id); err == nil {
			return g.Name
		}
		return ""
	})
}

// lookup returns a known name, or finds it once. Numbers without a name are
// not kept: there may be any number of them.
func lookup(known *sync.Map, id uint32, find func(string) string) string {
	if name, ok := known.Load(id); ok {
		return name.(string)
	}
	num := strconv.FormatUint(uint64(id), 10)
	name := find(num)
	if name == "" {
		return num
	}
	known.Store(id, name)
	return name
}
