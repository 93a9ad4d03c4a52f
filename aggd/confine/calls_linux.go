package confine

import (
	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// calls are the system calls of Go's runtime, of the network, and of reading the
// files that are left.
var calls = []string{
	// memory, time and threads
	"brk", "madvise", "mincore", "mmap", "mprotect", "mremap", "munmap",
	"clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep", "time",
	"futex", "get_robust_list", "membarrier", "restart_syscall", "rseq", "sched_getaffinity", "sched_yield", "set_robust_list", "set_tid_address",
	"exit", "exit_group", "getpid", "gettid", "tgkill",
	"rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "sigaltstack",
	"timer_create", "timer_delete", "timer_settime", "setitimer",
	"arch_prctl", "getrandom", "getrlimit", "prlimit64", "getrusage", "uname", "sysinfo",
	"getegid", "geteuid", "getgid", "getppid", "getuid",
	// descriptors
	"close", "dup", "dup3", "eventfd2", "fcntl", "fstat", "lseek", "pipe2", "pread64", "read", "readv", "sendfile", "splice", "write", "writev",
	"epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "poll", "ppoll", "pselect6",
	// files, of which Landlock leaves few
	"access", "faccessat", "faccessat2", "getcwd", "getdents64", "newfstatat", "openat", "readlinkat", "readlink", "stat", "lstat", "statx",
	// the network
	"connect", "getpeername", "getsockname", "getsockopt", "recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
}

// limited are the system calls that are left with some arguments only: threads,
// but no processes, and the sockets of IPv4 and IPv6 that carry TCP and UDP.
var limited = []seccomp.NameWithConditions{
	{Name: "clone", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_THREAD}}},
	{Name: "socket", Conditions: socket(unix.AF_INET, unix.SOCK_STREAM)},
	{Name: "socket", Conditions: socket(unix.AF_INET, unix.SOCK_DGRAM)},
	{Name: "socket", Conditions: socket(unix.AF_INET6, unix.SOCK_STREAM)},
	{Name: "socket", Conditions: socket(unix.AF_INET6, unix.SOCK_DGRAM)},
}

// socket allows one kind of socket, as Go makes them.
func socket(family, kind uint64) []seccomp.Condition {
	return []seccomp.Condition{
		{Argument: 0, Operation: seccomp.Equal, Value: family},
		{Argument: 1, Operation: seccomp.Equal, Value: kind | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC},
	}
}

// known returns those of the names that are system calls of this architecture.
func known(names []string) []string {
	info, err := arch.GetInfo("")
	if err != nil {
		return names
	}
	var list []string
	for _, name := range names {
		if _, ok := info.SyscallNames[name]; ok {
			list = append(list, name)
		}
	}
	return list
}
