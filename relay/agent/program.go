package agent

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"hutch/fs"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the variables of a command: the defaults, the agent's
// own, the VM's, and the command's; later ones win.
func environment(vm variables, own map[string]string, s *settings, who login) map[string]string {
	env := map[string]string{"PATH": defaultPath, "LANG": "C.UTF-8"}
	if s.user == "" {
		env["HOME"], env["USER"], env["LOGNAME"] = who.home, who.name, who.name
	}
	maps.DeleteFunc(own, func(k, _ string) bool {
		_, changed := vm[k]
		return changed
	})
	maps.Copy(env, own)
	if s.user != "" {
		env["HOME"], env["USER"], env["LOGNAME"] = who.home, who.name, who.name
	}
	if s.tty != nil {
		env["TERM"] = "xterm-256color"
	}
	for k, v := range vm {
		if v != nil {
			env[k] = *v
		}
	}
	maps.Copy(env, s.env)
	maps.DeleteFunc(env, func(k, _ string) bool {
		return slices.ContainsFunc(s.scrub, func(prefix string) bool { return strings.HasPrefix(k, prefix) })
	})
	return env
}

// withFolder returns a PATH that has the folder dir, at its end if nowhere else.
func withFolder(path, dir string) string {
	switch {
	case dir == "" || slices.Contains(filepath.SplitList(path), dir):
		return path
	case path == "":
		return dir
	}
	return strings.TrimSuffix(path, ":") + ":" + dir
}

func environ(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		list = append(list, k+"="+env[k])
	}
	return list
}

// ownEnvironment is the agent's own, without what concerns only itself.
func ownEnvironment() map[string]string {
	env := make(map[string]string)
	for _, kv := range os.Environ() {
		if k, v, ok := strings.Cut(kv, "="); ok && k != "" && !strings.HasPrefix(k, "HUTCH_") {
			env[k] = v
		}
	}
	return env
}

// startDir returns where a command starts.
func startDir(dir string) (string, error) {
	if dir == "" {
		if fi, err := os.Stat("/workspace"); err == nil && fi.IsDir() {
			return "/workspace", nil
		}
		return "/", nil
	}
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("%w: dir %q is not absolute", fs.ErrInvalid, dir)
	}
	fi, err := os.Stat(dir)
	switch {
	case err != nil: // of a kind of its own: that a file does not exist is said of the program
		return "", fmt.Errorf("%w: dir %s: %v", fs.ErrInvalid, dir, reason(err))
	case !fi.IsDir():
		return "", fmt.Errorf("dir %s: %w", dir, fs.ErrNotDir)
	}
	return dir, nil
}

// find returns the file of a program, as execvp would find it in path.
func find(name, path, dir string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("%w: a program's name is empty", fs.ErrInvalid)
	}
	if strings.Contains(name, "/") {
		file := name
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if err := executable(file); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return file, nil
	}
	var denied error
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		file := filepath.Join(d, name)
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if _, gone := os.Stat(file); gone == nil {
			denied = fmt.Errorf("%s: %w", file, err)
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("%w: no program %q in %s", fs.ErrNotExist, name, path)
}

func executable(file string) error {
	fi, err := os.Stat(file)
	switch {
	case err != nil:
		return reason(err)
	case fi.IsDir():
		return fmt.Errorf("%w: it is a directory", fs.ErrPermission)
	case fi.Mode()&0o111 == 0:
		return fmt.Errorf("%w: it is not executable", fs.ErrPermission)
	}
	return nil
}

// reason returns the kind of a system's error, without the path that the
// message names anyway.
func reason(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fs.ErrNotExist
	case errors.Is(err, os.ErrPermission):
		return fs.ErrPermission
	case errors.Is(err, syscall.ENOTDIR):
		return fs.ErrNotDir
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w: not a program for this machine, nor a script that begins with #!", fs.ErrInvalid)
	}
	return err
}
