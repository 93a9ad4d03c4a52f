// Package s3test starts a real S3 server for tests: versitygw, built as a module of
// its own, whose requirements are nobody else's.
package s3test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"hutch/aggd/storage"
	"hutch/fs/need"
)

// The keys of the servers.
const (
	AccessKey = "an-access-key-of-the-test"
	SecretKey = "a-secret-key-of-the-test"
)

// program builds the server once, beside hutch's own programs. Test programs that
// run side by side wait for each other; the second finds it up to date.
var program = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	top := strings.TrimSpace(string(out))
	bin := filepath.Join(top, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(bin, ".lock-s3"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	path := filepath.Join(bin, "versitygw")
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, "github.com/versity/versitygw/cmd/versitygw")
	cmd.Dir = filepath.Join(top, "aggd", "storage", "s3", "s3test", "testdata", "gateway")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("versitygw: %w\n%s", err, out)
	}
	return path, nil
})

// Start starts a server that ends with the test, and returns its bucket.
func Start(t *testing.T) storage.Bucket {
	t.Helper()
	need.Patience(t) // the server's module is built
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir, data := t.TempDir(), t.TempDir()
	need.Sweep(t, filepath.Dir(data))
	addr := free(t)
	var log bytes.Buffer
	cmd := exec.Command(path, "--port", addr, "--quiet", "posix", data)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &log, &log
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s", log.Bytes())
		}
	})
	c, err := minio.New(addr, &minio.Options{Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if err = c.MakeBucket(t.Context(), "box", minio.MakeBucketOptions{}); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the S3 server: %v", err)
		}
	}
	return storage.Bucket{Endpoint: "http://" + addr, Name: "box", AccessKey: AccessKey, SecretKey: SecretKey}
}

// free returns an address that nobody listens at.
func free(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
