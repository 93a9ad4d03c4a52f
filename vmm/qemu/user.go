//go:build linux

package qemu

import (
	"bufio"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
)

// A user is whom a machine's process belongs to.
type user struct {
	id     uint32 // 0: this process' own
	groups []uint32
}

const (
	firstUser = 1_900_000_000 // the users of machines begin here, far from people's
	users     = 1 << 24
	nobody    = 65534
)

// owner returns the user for the machine in dir, who has no files and no
// other process. Where this process is not root there is nothing to drop.
func owner(dir string) user {
	if os.Geteuid() != 0 {
		return user{}
	}
	h := fnv.New32a()
	h.Write([]byte(dir))
	for _, id := range []uint32{firstUser + h.Sum32()%users, nobody} {
		if mapped("/proc/self/uid_map", id) && mapped("/proc/self/gid_map", id) {
			return user{id: id, groups: kvmGroups()}
		}
	}
	return user{}
}

// String says whose the process is: the machine's own user's, or hutchd's.
func (u user) String() string {
	switch u.id {
	case 0:
		return "hutchd"
	case nobody:
		return "nobody"
	}
	return "own"
}

// mapped says whether a map of a user namespace has id.
func mapped(path string, id uint32) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		w := strings.Fields(in.Text())
		if len(w) != 3 {
			continue
		}
		first, _ := strconv.ParseUint(w[0], 10, 64)
		n, _ := strconv.ParseUint(w[2], 10, 64)
		if uint64(id) >= first && uint64(id)-first < n {
			return true
		}
	}
	return false
}
