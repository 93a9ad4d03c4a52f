package fs

import (
	"path"
	"strings"
	"testing"
)

var (
	workLinks = &Links{At: "/workspace", Places: []Place{{"/workspace", "."}, {"/", "../root"}}}
	rootLinks = &Links{At: "/", Places: []Place{{"/workspace", "../work"}, {"/", "."}}}
)

func TestLinksServed(t *testing.T) {
	for _, c := range []struct {
		l               *Links
		dir, text, want string
	}{
		{workLinks, "", "notes", "notes"},
		{workLinks, "", "./a//b/", "./a//b/"},
		{workLinks, "a/b", "../../c", "../../c"},
		{workLinks, "a", "..", ".."},
		{workLinks, "", "/etc/shadow", "/mnt/vm/x/root/etc/shadow"},
		{workLinks, "", "/", "/mnt/vm/x/root"},
		{workLinks, "a", "/workspace/b/c", "/mnt/vm/x/work/b/c"},
		{workLinks, "a", "/workspace", "/mnt/vm/x/work"},
		{workLinks, "a", "/workspaces", "/mnt/vm/x/root/workspaces"},
		{workLinks, "a", "/workspace/../etc/shadow", "/mnt/vm/x/root/etc/shadow"},
		{workLinks, "a", "/../../etc/shadow", "/mnt/vm/x/root/etc/shadow"},
		{workLinks, "", "../etc/shadow", "/mnt/vm/x/root/etc/shadow"},
		{workLinks, "", "..", "/mnt/vm/x/root"},
		{workLinks, "a", "../../../../../etc/shadow", "/mnt/vm/x/root/etc/shadow"},
		{workLinks, "a", "../../workspace/b", "/mnt/vm/x/work/b"},
		{workLinks, "a/b", "s/../../c", "/mnt/vm/x/work/a/c"},
		{workLinks, "a/b", "s/..", "/mnt/vm/x/work/a/b"},
		{rootLinks, "", "usr/bin", "usr/bin"},
		{rootLinks, "usr/bin", "../lib", "../lib"},
		{rootLinks, "usr/bin", "../../../../lib", "/mnt/vm/x/work/../root/lib"},
		{rootLinks, "etc", "/etc/hostname", "/mnt/vm/x/root/etc/hostname"},
		{rootLinks, "etc", "/workspace/f", "/mnt/vm/x/work/f"},
	} {
		top := "/mnt/vm/x/work"
		if c.l == rootLinks {
			top = "/mnt/vm/x/root"
		}
		if path.IsAbs(c.want) {
			c.want = path.Clean(c.want)
		}
		if got := c.l.Served(top, c.dir, c.text); got != c.want {
			t.Errorf("in %q at %q: %q is served as %q, want %q", c.l.At, c.dir, c.text, got, c.want)
		}
	}
}

// What is served of an absolute text is stored as that text.
func TestLinksStored(t *testing.T) {
	for _, text := range []string{"/etc/passwd", "/workspace/a", "/workspace", "/", "a/b", "../x", "/usr/../x/"} {
		served := workLinks.Served("/mnt/vm/x/work", "", text)
		want := text
		if path.IsAbs(served) {
			want = path.Join("/workspace", text)
			if path.IsAbs(text) {
				want = path.Clean(text)
			}
		}
		if got := workLinks.Stored("/mnt/vm/x/work", served); got != want {
			t.Errorf("%q is served as %q and stored as %q", text, served, got)
		}
	}
	for _, target := range []string{"/etc/passwd", "/mnt/vm/y/root/a", "/mnt/vm/x/work/../root/a", "/mnt/vm/x/rooted"} {
		if got := workLinks.Stored("/mnt/vm/x/work", target); got != target {
			t.Errorf("%q is stored as %q", target, got)
		}
	}
}

// No text leads out of the VM's folder: walked from the link's directory, or
// from any place that a link on the way may lead to, it never rises above top.
func FuzzLinks(f *testing.F) {
	for _, s := range []string{"/etc/shadow", "../../x", "a/../../../x", "/workspace/../..", "./..//..", "..\x00/.."} {
		f.Add("a/b", s)
	}
	f.Fuzz(func(t *testing.T, dir, text string) {
		dir = strings.Trim(path.Clean("/"+dir), "/")
		for _, l := range []*Links{workLinks, rootLinks} {
			served := l.Served("/mnt/vm/x/top", dir, text)
			switch {
			case path.IsAbs(served) && (path.Clean(served) != served || !strings.HasPrefix(served, "/mnt/vm/x/")):
				t.Errorf("in %q %q is served as %q", dir, text, served)
			case !path.IsAbs(served) && (served != text || Rises(served) > depth(dir)):
				t.Errorf("in %q %q is served as %q", dir, text, served)
			}
		}
	})
}
