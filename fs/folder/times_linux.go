package folder

import (
	"syscall"
	"time"
)

func times(s *syscall.Stat_t) (atime, ctime time.Time) {
	return time.Unix(s.Atim.Unix()), time.Unix(s.Ctim.Unix())
}
