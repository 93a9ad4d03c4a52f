package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hutch/aggd/confine"
	"hutch/aggd/storage"
	"hutch/aggd/storage/remote"
	"hutch/aggd/storage/s3"
	"hutch/aggd/storage/s3/s3test"
)

// TestMain is also locald storage.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "storage" {
		err := confine.Enter(2)
		if err == nil {
			err = s3.Serve(os.Stdin, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// start starts storage in a process of its own.
func start(t *testing.T, b storage.Bucket) *remote.Storage {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := remote.Start(remote.Config{Path: self, Bucket: b, Log: os.Stderr, Down: func(err error) { t.Log(err) }})
	t.Cleanup(s.Close)
	return s
}

func TestServer(t *testing.T) {
	c := s3test.Start(t)
	c.Prefix = "team/dev"
	s := start(t, c)
	ctx := t.Context()

	put := func(name, text string, how storage.How, want error) {
		t.Helper()
		if err := s.Write(ctx, name, []byte(text), how); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("write %s %q: %v, want %v", how, name, err, want)
		}
	}
	put("a", "one", storage.New, nil)
	put("a", "two", storage.New, syscall.EEXIST)
	replace := func(name, text string, was storage.Info, want string) {
		t.Helper()
		err := s.Replace(ctx, name, []byte(text), was)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("replace %s: %v, want %q", name, err, want)
		}
	}
	_, was, err := s.Read(ctx, "a", 0, 9)
	if err != nil || was.Tag == "" {
		t.Fatal(was, err)
	}
	replace("a", "two!", was, "")
	replace("a", "three", was, "the file has just been changed")
	put("a", "two", storage.Whatever, nil)
	replace("none", "x", was, "no such file or directory")
	put("d/e/f", "deep", storage.Whatever, nil)
	put("d/empty", "", storage.New, nil)
	put("d", "x", storage.Whatever, syscall.EISDIR)
	put("a/b", "x", storage.New, syscall.ENOTDIR)
	put(".", "x", storage.Whatever, syscall.EISDIR)
	put("../x", "x", storage.Whatever, syscall.EINVAL)
	put("a\x00b", "x", storage.Whatever, syscall.EINVAL)
	put(strings.Repeat("x", 1020), "x", storage.Whatever, syscall.ENAMETOOLONG)
	put("sp ace/ü+&%2e?#", "odd", storage.New, nil)

	for _, r := range []struct {
		name   string
		off, n int64
		want   string
	}{
		{"a", 0, 100, "two"}, {"a", 1, 1, "w"}, {"a", 2, 100, "o"}, {"a", 3, 5, ""}, {"a", 99, 5, ""},
		{"d/e/f", 0, 1, "d"}, {"d/empty", 0, 5, ""}, {"sp ace/ü+&%2e?#", 0, 9, "odd"},
	} {
		data, info, err := s.Read(ctx, r.name, r.off, r.n)
		if err != nil || string(data) != r.want || info.Kind != storage.File {
			t.Errorf("read %q from %d: %q %+v %v", r.name, r.off, data, info, err)
		}
	}
	if _, _, err := s.Read(ctx, "d", 0, 9); err == nil || !strings.Contains(err.Error(), "is a dir") {
		t.Errorf("read a folder: %v", err)
	}
	if _, _, err := s.Read(ctx, "none", 0, 9); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("read none: %v", err)
	}

	list := func(name string, most int) string {
		t.Helper()
		l, more, err := s.List(ctx, name, most)
		if err != nil {
			return err.Error()
		}
		var b strings.Builder
		for _, i := range l {
			fmt.Fprintf(&b, "%s %s %d,", i.Kind, i.Name, i.Size)
		}
		fmt.Fprint(&b, more)
		return b.String()
	}
	for _, l := range []struct {
		name string
		most int
		want string
	}{
		{".", 10, "file a 3,dir d 0,dir sp ace 0,false"}, {".", 1, "file a 3,true"}, {"d", 10, "dir e 0,file empty 0,false"},
		{"a", 10, `path "a": not a directory`}, {"none", 10, `path "none": no such file or directory`},
	} {
		if got := list(l.name, l.most); got != l.want {
			t.Errorf("list %s: %s, want %s", l.name, got, l.want)
		}
	}

	// Another VM sees nothing of it.
	c.Prefix = "team/de"
	other := start(t, c)
	if l, _, err := other.List(ctx, ".", 10); len(l) != 0 || err != nil {
		t.Errorf("another lists %v %v", l, err)
	}

	if err := s.Remove(ctx, "d"); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("remove a folder: %v", err)
	}
	if err := s.Remove(ctx, "a"); err != nil {
		t.Error(err)
	}
	if err := s.Remove(ctx, "a"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("remove what is gone: %v", err)
	}
}

// TestRace has many make one file: one of them does.
func TestRace(t *testing.T) {
	s := start(t, s3test.Start(t))
	var made atomic.Int32
	var work sync.WaitGroup
	for i := range 20 {
		work.Go(func() {
			err := s.Write(t.Context(), "one", fmt.Append(nil, i), storage.New)
			if err == nil {
				made.Add(1)
			} else if !errors.Is(err, syscall.EEXIST) {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if made.Load() != 1 {
		t.Errorf("%d made it", made.Load())
	}
}

func TestQuota(t *testing.T) {
	c := s3test.Start(t)
	c.Quota = 100
	s := start(t, c)
	var took atomic.Int32
	var work sync.WaitGroup
	for i := range 20 {
		work.Go(func() {
			err := s.Write(t.Context(), fmt.Sprint(i), make([]byte, 10), storage.New)
			if err == nil {
				took.Add(1)
			} else if !strings.Contains(err.Error(), "quota exceeded: 100 bytes of 100 are used, and 10 more") {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if took.Load() != 10 {
		t.Errorf("%d of 10 bytes went into 100", took.Load())
	}
	l, _, err := s.List(t.Context(), ".", 99)
	if err != nil || len(l) != 10 {
		t.Fatal(l, err)
	}
	if err := s.Write(t.Context(), l[0].Name, make([]byte, 5), storage.Whatever); err != nil {
		t.Error("a smaller one: ", err)
	}
	if err := s.Remove(t.Context(), l[1].Name); err != nil {
		t.Error(err)
	}
	if err := s.Write(t.Context(), "new", make([]byte, 16), storage.New); err == nil {
		t.Error("16 bytes went where 15 are left")
	}
	if err := s.Write(t.Context(), "new", make([]byte, 15), storage.New); err != nil {
		t.Error(err)
	}
}

// TestTrouble has servers that are no use: the error is short, in time, and tells
// nothing that it should not.
func TestTrouble(t *testing.T) {
	says := func(status int, text string) string {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, text)
		}))
		t.Cleanup(h.Close)
		return h.URL
	}
	hangs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	}))
	t.Cleanup(hangs.Close)
	// Pages of a list that go on for ever, of one key each that is no file's.
	const page = `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken><Contents><Key>p/../x</Key></Contents>`
	endless := says(200, page+"</ListBucketResult>")
	huge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, page)
		for {
			if _, err := io.WriteString(w, "<Contents><Key>p/"+strings.Repeat("a", 30000)+"</Key></Contents>"); err != nil {
				return
			}
		}
	}))
	t.Cleanup(huge.Close)
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	moved := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(moved.Close)
	failed := func(code, text string) string {
		return says(http.StatusForbidden, "<Error><Code>"+code+"</Code><Message>"+text+"</Message></Error>")
	}
	for _, r := range []struct{ name, url, want string }{
		{"dead", "http://127.0.0.1:1", "refuses connections"},
		{"no name", "http://none.invalid", "name is not known"},
		{"wrong key", failed("InvalidAccessKeyId", s3test.SecretKey), "the keys are refused (InvalidAccessKeyId)"},
		{"no bucket", failed("NoSuchBucket", s3test.SecretKey), "no such bucket"},
		{"a code", failed("Odd", s3test.SecretKey), "the server says Odd"},
		{"no code", failed("<b>"+s3test.SecretKey+"</b> \x07", s3test.SecretKey), "storage: "},
		{"nonsense", says(200, s3test.SecretKey), "storage: "},
		{"slow", hangs.URL, "no answer within"},
		{"endless", endless, "no answer within"},
		{"huge", huge.URL, "the server's answer is not understood"},
		{"moved", moved.URL, "storage: "},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, storage.Bucket{Endpoint: r.url, Name: "box", Prefix: "p", AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey})
			began := time.Now()
			_, _, err := s.List(t.Context(), ".", 10)
			if err == nil || !strings.Contains(err.Error(), r.want) || strings.Contains(err.Error(), s3test.SecretKey) || len(err.Error()) > 120 {
				t.Errorf("%v", err)
			}
			if took := time.Since(began); took > storage.Patience+3*time.Second {
				t.Errorf("it took %v", took)
			}
			if n := elsewhere.Load(); n > 0 {
				t.Errorf("another server was asked %d times", n)
			}
		})
	}
	t.Run("wrong key", func(t *testing.T) {
		c := s3test.Start(t)
		c.SecretKey = "another"
		s := start(t, c)
		if err := s.Write(t.Context(), "a", nil, storage.New); err == nil || !strings.Contains(err.Error(), "the keys are refused") {
			t.Error(err)
		}
		if _, _, err := s.List(t.Context(), ".", 9); err == nil || !strings.Contains(err.Error(), "the keys are refused (SignatureDoesNotMatch)") {
			t.Error(err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		s := remote.Start(remote.Config{Path: "/none", Log: io.Discard, Down: func(error) {}})
		defer s.Close()
		if _, err := s.Stat(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "program is missing") {
			t.Error(err)
		}
	})
}

// FuzzServe has anything asked: what is not understood ends it with an error.
func FuzzServe(f *testing.F) {
	for _, text := range []string{"", "{}\n", "[]\n{}\n", `{"id":1,"method":"stat","name":"../x"}` + "\n", `{"id":1,"method":"write","data":"!"}`, `{"id":-1}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var out bytes.Buffer
		s3.Serve(strings.NewReader(`{"endpoint":"http://127.0.0.1:1","name":"box"}`+"\n"+text), &out)
		if strings.Count(out.String(), "\n") > strings.Count(text, "\n")+1 {
			t.Errorf("%q has the answers %q", text, out.String())
		}
	})
}
