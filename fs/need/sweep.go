package need

import (
	"io"
	"os/exec"
	"syscall"
	"testing"
)

// sweeper waits on its input for the test: a line says that it has ended and
// cleans up itself. Without one it was killed. Then whatever names the folder $1
// in its arguments is killed, what is mounted below it is detached, and it goes,
// with the control groups that those processes were in, and those named by $2
// and on.
const sweeper = `
read line && exit
dir=$1 groups=
shift
for g; do groups="$groups /$g"; done
for i in 1 2 3 4 5 6 7 8 9; do
	found=$(grep -lsF -e "$dir/" /proc/[0-9]*/cmdline | cut -d/ -f3 | grep -vx $$)
	[ "$found" ] || break
	for p in $found; do groups="$groups $(grep -o '/hutch-[0-9a-f]*' /proc/$p/cgroup 2>/dev/null)"; done
	kill -9 $found 2>/dev/null
	sleep 0.1
done
grep -F -e "$dir/" /proc/self/mountinfo | cut -d' ' -f5 | sort -r | while read -r m; do umount -l "$m"; done
for g in $(printf '%s\n' $groups | sort -u); do
	find /sys/fs/cgroup -depth -type d -path "*$g*" -exec rmdir {} + 2>/dev/null
done
rm -rf "$dir"
`

// Sweep has dir, where a test works, go with all that runs and is mounted there
// when the test program is killed. groups are control groups of the test. A test
// that is not killed cleans up itself.
func Sweep(t testing.TB, dir string, groups ...string) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", sweeper, "sweeper", dir}, groups...)...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what ends the test by a signal to its group leaves it alone
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		io.WriteString(in, "done\n")
		in.Close()
		cmd.Wait()
	})
}
