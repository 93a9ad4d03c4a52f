package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"hutch/fs"
)

// runServer makes a server of what its first argument names, and prints its name
// when it runs.
func runServer(ctx context.Context, c *tree, f *serverFlags, args []string) error {
	ref, err := whole(args[0])
	if err != nil {
		return err
	}
	args = append([]string{ref}, args[1:]...)
	name := cmp.Or(f.name, serverName(ref))
	if name == "" {
		return misused("server", "no name can be made of "+fs.QuoteLine(args[0])+": say one with -name")
	}
	if err := f.remote(args[0], args[1:]); err != nil {
		return err
	}
	config, err := f.config()
	if err != nil {
		return err
	}
	return f.newServer(ctx, c, name, func(dir string) error {
		if err := storeServer(c, dir, config); err != nil {
			return err
		}
		err := tellFollowed(ctx, c, dir, "run "+fs.QuoteAll(args))
		if err == nil {
			return tellStatus(c, dir, notedTexts)
		}
		if st, wrong := os.Stat(ref); wrong == nil && st.Mode().IsRegular() && !strings.Contains(ref, "/") {
			return fmt.Errorf("%w; the program here is ./%s", err, ref)
		}
		if status, _ := readFile(c, path.Join(dir, "status")); !strings.HasPrefix(status, "unauthenticated\n") || f.bearer != "" || f.headers != nil {
			return err
		}
		if wrong := login(c, dir, "login", os.Stderr); wrong != nil { // else it has started
			return fmt.Errorf("%w: it wants a token, and no login got one: %w; -bearer NAME shows it a token that is stored as a secret, -header another header", fs.ErrPermission, wrong)
		}
		return nil
	})
}

// whole returns a REF with the whole path of what it names here: a program, or behind go://
// a folder.
func whole(ref string) (string, error) {
	name, folder := strings.CutPrefix(ref, "go://")
	if !strings.HasPrefix(name, "/") && name != "." && name != ".." && !strings.HasPrefix(name, "./") && !strings.HasPrefix(name, "../") {
		return ref, nil
	}
	name, err := filepath.Abs(name)
	if st, wrong := os.Stat(name); !folder && wrong == nil && st.Mode().IsRegular() && st.Mode()&0o111 == 0 {
		return "", fmt.Errorf("%w: %s is not executable: chmod +x it first", fs.ErrPermission, ref)
	}
	if folder {
		name = "go://" + name
	}
	return name, err
}

// newServer makes a server, has it be something, and prints its name. Of one that
// cannot be, nothing is left.
func (f *serverFlags) newServer(ctx context.Context, c *tree, name string, be func(dir string) error) error {
	dir, err := serverDir(name)
	if err != nil {
		return err
	}
	err = c.mkdir(dir, 0o755)
	if fs.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: server %q: say another -name, or hutch server rm %s first", fs.ErrExist, name, name)
	}
	if err != nil {
		return err
	}
	if err := be(dir); err != nil {
		if !f.keep {
			err = errors.Join(goneWith(dir, err), dropServer(ctx, dir))
		}
		return err
	}
	_, err = fmt.Println(name)
	return err
}

// goneWith adds to why a server does not run, if that has what to tell its ctl, how there
// is one to be told: this one goes.
func goneWith(dir string, err error) error {
	if !strings.Contains(fs.Text(err), ">"+dir+"/ctl") {
		return err
	}
	return fmt.Errorf("%w; as nothing is left of the server, run it with -keep to tell it that, or with -permissions FILE that allows it", err)
}

// dropTime is how long it is waited for that a server goes.
const dropTime = 30 * time.Second

// dropServer removes a server, over a connection of its own: an interrupt has ended
// the one that there was.
func dropServer(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	c, err := dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.remove(dir); err != nil && !isMissing(err) {
		return fmt.Errorf("%s is left: %w", dir, err)
	}
	return nil
}

// serverLog prints a log of a server.
func serverLog(ctx context.Context, c *tree, f *serverFlags, args []string) error {
	dir, err := serverDir(args[0])
	if err != nil {
		return err
	}
	log := "server"
	if len(args) == 2 {
		log = args[1]
	}
	file := path.Join(dir, "log", log)
	if _, err := c.stat(dir); err == nil && (strings.Contains(log, "/") || !isFile(c, file)) {
		return fmt.Errorf("%w: server %s has no log %q: %s", fs.ErrNotExist, args[0], log, logNames(c, dir))
	}
	return noServer(c, dir, printLog(ctx, c, os.Stdout, file, 0, f.follow))
}

// loginServer has a person log in to a remote server.
func loginServer(_ context.Context, c *tree, f *serverFlags, args []string) error {
	dir, err := serverDir(args[0])
	if err != nil {
		return err
	}
	message := "login"
	if f.device {
		message += " device"
	}
	return noServer(c, dir, login(c, dir, message, os.Stdout))
}

// login has a person log in to a server, and prints what is to be done for that until it
// is.
func login(c *tree, dir, message string, w io.Writer) error {
	file := path.Join(dir, "login")
	told, _ := readFile(c, file) // of a login before
	done := make(chan error, 1)
	go func() { done <- writeFile(c, path.Join(dir, "ctl"), message+"\n") }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(200 * time.Millisecond):
		}
		if text, err := readFile(c, file); err == nil && text != told {
			told = text
			fmt.Fprintln(w, fs.PlainLine(strings.TrimSpace(text)))
		}
	}
}
