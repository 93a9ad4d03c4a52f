// Package need skips tests on machines that lack what they need, as QEMU, FUSE or
// root, with the reason; if HUTCH_TEST_REQUIRE=all is set, as it is in CI, the
// test fails instead.
package need

import (
	"os"
	"os/exec"
	"testing"
)

// Missing skips the test for reason, or fails it where nothing may be missing.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("HUTCH_TEST_REQUIRE") == "all" {
		t.Fatalf("needed here: %s", reason)
	}
	t.Skip(reason)
}

// Patience skips a test that takes long, unless HUTCH_TEST_SLOW is set: with
// all of them a package outlasts the time that go test gives it.
func Patience(t testing.TB) {
	t.Helper()
	if os.Getenv("HUTCH_TEST_SLOW") == "" {
		t.Skip("takes long: set HUTCH_TEST_SLOW=1")
	}
}

// Tool returns the path of a program that the test runs.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name+" is not installed")
	}
	return path
}

// File returns path, which the test reads or opens.
func File(t testing.TB, path string) string {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		Missing(t, path+" is not there")
	}
	return path
}

// Root needs the superuser.
func Root(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		Missing(t, "not root")
	}
}

// FUSE needs a usable /dev/fuse, and fusermount3 for ordinary users.
func FUSE(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		Missing(t, "no FUSE: "+err.Error())
	}
	f.Close()
	if os.Getuid() != 0 {
		Tool(t, "fusermount3")
	}
}
