package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"hutch/fs"
)

// packParts are what an archive may have or not, by the words of pack and unpack,
// and when pack has it of which nothing is said. Unpack has all.
var packParts = []struct{ word, doc, packed string }{
	{"ledger", "with the VM's records", "usual"},
	{"logs", "with its logs", "not usual"},
	{"snapshots", "with its snapshots", "not usual"},
	{"memory", "with the memory of one that is suspended", "usual where it may hold no secret"},
}

// definePacked declares the flags of parts, and returns the words that they come to.
func definePacked(flags *flag.FlagSet, unpack bool) (words *[]string) {
	words = new([]string)
	for _, p := range packParts {
		if unpack {
			p.packed = "usual"
		}
		flags.BoolFunc(p.word, fmt.Sprintf("%s (%s); -%s=false: without", p.doc, p.packed, p.word), func(value string) error {
			switch value {
			case "true":
				*words = append(*words, p.word)
			case "false":
				*words = append(*words, "-"+p.word)
			default:
				return errors.New("want true or false")
			}
			return nil
		})
	}
	return words
}

func definePack(flags *flag.FlagSet) action {
	out := flags.String("o", "-", "write the archive to this `file`; -: our output")
	words := definePacked(flags, false)
	return connected(func(ctx context.Context, c *tree, args []string) error {
		vm, err := vmDir(args[0])
		if err != nil {
			return err
		}
		if slices.Contains(*words, "memory") {
			sayNoMemory(c, args[0], vm)
		}
		if *out != "-" {
			return noVM(c, args[0], packFile(ctx, c, vm, *out, *words))
		}
		if term.IsTerminal(1) {
			return misused("pack", "an archive is nothing for a terminal: say -o FILE, or send it elsewhere")
		}
		return noVM(c, args[0], pack(ctx, c, vm, os.Stdout, *words))
	})
}

// sayNoMemory says it where a VM's memory is asked for and is nowhere to be packed.
func sayNoMemory(c *tree, name, vm string) {
	status, err := readFile(c, path.Join(vm, "status"))
	if state, _, _ := strings.Cut(status, "\n"); err == nil && state != "suspended" {
		fmt.Fprintf(os.Stderr, "hutch: vm %q is %s, not suspended: its memory is not in the archive\n", name, state)
	}
}

// packFile packs a VM into a file, which stays what it was, or is not there, if
// that fails.
func packFile(ctx context.Context, c *tree, vm, out string, words []string) error {
	if st, err := os.Stat(out); err == nil && !st.Mode().IsRegular() {
		f, err := os.OpenFile(out, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		err = pack(ctx, c, vm, f, words)
		return cmp.Or(err, f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(out), filepath.Base(out)+".part-")
	if err != nil {
		return err
	}
	err = pack(ctx, c, vm, f, words)
	if err = cmp.Or(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), out)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

func pack(ctx context.Context, c *tree, vm string, w io.Writer, words []string) error {
	f, err := c.open(path.Join(vm, "pack"), os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.closeWith(ctx)()
	if len(words) > 0 {
		if _, err := f.WriteAt([]byte(strings.Join(words, " ")+"\n"), 0); err != nil {
			return err
		}
	}
	p := newMeter()
	defer p.end()
	_, err = io.CopyBuffer(io.MultiWriter(w, p), struct{ io.Reader }{f}, make([]byte, 128<<10))
	return cmp.Or(ctx.Err(), err)
}

func defineUnpack(flags *flag.FlagSet) action {
	words := definePacked(flags, true)
	yes := flags.Bool("yes", false, "let it have the profile, network, mounts and kernel that the archive names")
	return connected(func(ctx context.Context, c *tree, args []string) error {
		vm, err := vmDir(args[1])
		if err != nil {
			return err
		}
		in := os.Stdin
		if args[0] != "-" {
			if in, err = os.Open(args[0]); err != nil {
				return err
			}
			defer in.Close()
		}
		if err := c.mkdir(vm, 0o755); err != nil {
			return err
		}
		err = unpack(ctx, c, vm, in, *words)
		if err == nil {
			err = unpacked(c, vm, *yes)
		}
		if err == nil && *yes {
			err = writeFile(c, path.Join(vm, "ctl"), "confirm\n")
		}
		if err != nil {
			removeHalf(ctx, vm)
		}
		return err
	})
}

// removeHalf removes a VM that was not unpacked, by a connection of its own, as an
// interrupt ends the other. If it cannot be, what went wrong before is what to tell.
func removeHalf(ctx context.Context, vm string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	c, err := dial(ctx)
	if err != nil {
		return
	}
	defer c.Close()
	c.remove(vm)
}

func unpack(ctx context.Context, c *tree, vm string, r io.Reader, words []string) error {
	f, err := c.open(path.Join(vm, "unpack"), os.O_WRONLY)
	if err != nil {
		return err
	}
	if len(words) > 0 {
		r = io.MultiReader(strings.NewReader(strings.Join(words, " ")+"\n"), r)
	}
	p := newMeter()
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, io.TeeReader(r, p), make([]byte, 128<<10))
	p.end()
	cerr := f.Close() // which makes the VM
	return cmp.Or(ctx.Err(), err, cerr)
}

// unpacked sees that the VM was made, and tells what it lacks.
func unpacked(c *tree, vm string, yes bool) error {
	status, err := readFile(c, path.Join(vm, "status"))
	if err != nil {
		return err
	}
	state, _, _ := strings.Cut(status, "\n")
	if state == "created" {
		return fmt.Errorf("%w: this is no archive: nothing was unpacked", fs.ErrInvalid)
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", state, pairs(status)["reason"])
	if keys := pairs(status)["unconfirmed"]; keys != "" && !yes {
		fmt.Fprintf(os.Stderr, "it starts when you have agreed to what the archive says of %s: `echo confirm | hutch 9p write %s/ctl`, or set them by `hutch config %s KEY VALUE`\n", keys, vm, path.Base(vm))
	}
	return nil
}

// A meter tells on a terminal how much has passed.
type meter struct {
	shown bool
	n     int64
	began time.Time
	last  time.Time
}

func newMeter() *meter {
	return &meter{shown: term.IsTerminal(2), began: time.Now()}
}

func (p *meter) Write(b []byte) (int, error) {
	p.n += int64(len(b))
	if now := time.Now(); p.shown && now.Sub(p.last) > 200*time.Millisecond {
		p.last = now
		p.print()
	}
	return len(b), nil
}

func (p *meter) print() {
	mib := float64(p.n) / (1 << 20)
	fmt.Fprintf(os.Stderr, "\r%.1f MiB, %.1f MiB/s ", mib, mib/max(time.Since(p.began).Seconds(), 0.001))
}

func (p *meter) end() {
	if p.shown {
		p.print()
		fmt.Fprintln(os.Stderr)
	}
}
