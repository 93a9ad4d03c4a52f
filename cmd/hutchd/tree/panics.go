package tree

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"hutch/fs"
	"hutch/mcpd/redact"
	"hutch/mcpd/timeline"
)

// A crash is what is known of all crashes with the same message at the same place.
type crash struct {
	First  string   `json:"first"`
	Last   string   `json:"last"`
	Count  int      `json:"count"`
	Panic  string   `json:"panic"`
	Place  string   `json:"place"`
	Frames []string `json:"frames"` // of the goroutine that crashed last
}

// What is read and told of crashes at most.
const (
	maxCrashes = 1 << 20 // bytes of the file, its end
	maxFrames  = 16
	maxTold    = 400 // bytes of a message or a frame
)

// Crashed is what a line of the crash log begins with that says when what stands
// above it was written: the Go runtime, which writes the rest, does not.
const Crashed = "hutchd: crashed "

// openPanics opens the crashes of hutchd, this run's and former ones'.
func openPanics(c call, flags int) (fs.Handle, error) {
	return c.At.s.openNarrowed(flags, timeline.Few, func(_ context.Context, q timeline.Query) (string, error) {
		text, written, err := crashText(c.At.s.cfg.CrashLog)
		if err != nil {
			return "", err
		}
		crashes := slices.DeleteFunc(crashesOf(text, written), func(c crash) bool { return c.Last < stampOf(q.Since) })
		return linesOf(crashes, q.Limit)
	})
}

// crashText returns the end of the crash log, and when it was last written to.
func crashText(path string) (string, time.Time, error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return "", time.Time{}, nil
	} else if err != nil {
		return "", time.Time{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", time.Time{}, err
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(0, st.Size()-maxCrashes), maxCrashes))
	return string(text), st.ModTime(), err
}

var (
	crashHead = regexp.MustCompile(`^(panic|fatal error|runtime|SIG[A-Z]+): ?(.*)`)
	crashLine = regexp.MustCompile(`^\t(.*:[0-9]+)( \+0x[0-9a-f]+)?$`)
)

// crashesOf returns the crashes that the Go runtime told of, those that were last
// the last. What has no line that says when it was is of the time written.
func crashesOf(text string, written time.Time) []crash {
	var r crashReader
	for line := range strings.Lines(text) {
		r.line(strings.TrimRight(line, "\r\n"))
	}
	r.end()
	r.date(stampOf(written))
	return alike(r.all)
}

// A crashReader takes the lines of a crash log.
type crashReader struct {
	all   []crash
	dated int // how many of the first of all have a time

	now     crash
	started bool   // a goroutine of now was met
	in      bool   // that is the one that crashed, and its stack goes on
	fun     string // whose file and line come next
}

func (r *crashReader) line(line string) {
	head := crashHead.FindStringSubmatch(strings.TrimLeft(line, "\t "))
	switch {
	case strings.HasPrefix(line, Crashed):
		r.end()
		r.date(strings.TrimPrefix(line, Crashed))
	case head != nil && (!r.in || line[0] != '\t'):
		if r.started {
			r.end()
		}
		if r.now.Panic != "" {
			r.now.Panic += "; "
		}
		r.now.Panic += head[2]
	case strings.HasPrefix(line, "goroutine ") && strings.HasSuffix(line, ":"):
		r.in, r.started = !r.started && r.now.Panic != "", r.started || r.now.Panic != ""
	case line == "":
		r.in = false
	case r.in && crashLine.MatchString(line):
		if len(r.now.Frames) < maxFrames && r.fun != "" {
			r.now.Frames = append(r.now.Frames, plainWords(r.fun+" "+crashLine.FindStringSubmatch(line)[1]))
		}
		r.fun = ""
	case r.in:
		r.fun = funcName(line)
	}
}

// end ends the crash that is being read.
func (r *crashReader) end() {
	if r.started && r.now.Panic != "" {
		r.now.Place = placeOf(r.now.Frames)
		r.all = append(r.all, r.now)
	}
	r.now, r.in, r.started = crash{}, false, false
}

// date says when the crashes were that have no time yet.
func (r *crashReader) date(when string) {
	for ; r.dated < len(r.all); r.dated++ {
		r.all[r.dated].Last = when
	}
}

// funcName returns the name of the function in a line of a stack, without its
// arguments.
func funcName(line string) string {
	line, _, _ = strings.Cut(strings.TrimPrefix(line, "created by "), " in goroutine ")
	if i := strings.LastIndexByte(line, '('); i > 0 && strings.HasSuffix(line, ")") {
		line = line[:i]
	}
	return line
}

// placeOf returns the frame that is to blame: the first that is not the runtime's.
func placeOf(frames []string) string {
	for _, f := range frames {
		if !strings.HasPrefix(f, "runtime.") && !strings.HasPrefix(f, "runtime/") && !strings.HasPrefix(f, "panic ") {
			return f
		}
	}
	return ""
}

// alike joins the crashes of the same message at the same place.
func alike(all []crash) (kinds []crash) {
	for _, c := range all {
		c.First, c.Count = c.Last, 1
		c.Panic = plainWords(c.Panic)
		i := slices.IndexFunc(kinds, func(k crash) bool { return k.Panic == c.Panic && k.Place == c.Place })
		if i >= 0 {
			c.First, c.Count = min(kinds[i].First, c.First), kinds[i].Count+1
			kinds = slices.Delete(kinds, i, i+1)
		}
		kinds = append(kinds, c)
	}
	slices.SortStableFunc(kinds, func(a, b crash) int { return strings.Compare(a.Last, b.Last) })
	return kinds
}

// plainWords returns a text that anybody may have had a part in: without secrets,
// and not too long.
func plainWords(text string) string {
	text = new(redact.Redactor).Redact(text)
	if len(text) > maxTold {
		text = strings.ToValidUTF8(text[:maxTold], "") + "…"
	}
	return text
}

// stampOf returns a time as lines have it; "" for none.
func stampOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(fs.TimeFormat)
}

// linesOf returns the last of list, a JSON line each.
func linesOf[T any](list []T, limit int) (string, error) {
	var b bytes.Buffer
	for _, v := range list[max(0, len(list)-cmp.Or(limit, timeline.DefaultLines)):] {
		line, err := fs.MarshalLine(v)
		if err != nil {
			return "", err
		}
		b.Write(append(line, '\n'))
	}
	return b.String(), nil
}
