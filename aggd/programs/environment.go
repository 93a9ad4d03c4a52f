package programs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hutch/aggd/wire"
)

// DefaultPath is where programs are looked for when nobody says.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the environment of a program: its own, the home of its user,
// and of hutchd's nothing.
func environment(p wire.Program, home string) []string {
	if p.Confined {
		return nil
	}
	all := map[string]string{"PATH": DefaultPath, "HOME": home}
	maps.Copy(all, p.Env)
	env := []string{}
	for name, value := range all {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// lookPath finds a command by the PATH of env.
func lookPath(command string, env []string) (string, error) {
	if strings.Contains(command, "/") {
		if _, err := os.Stat(command); errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("there is no program %s", command)
		}
		return command, nil
	}
	for _, kv := range env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			if file := Find(command, path); file != "" {
				return file, nil
			}
		}
	}
	return "", fmt.Errorf("no program %q in the PATH", command)
}

// Find returns where the program of a command is by a PATH, "" if nowhere. What is not
// absolute in that does not count.
func Find(command, path string) string {
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, command)
		if info, err := os.Stat(file); err == nil && filepath.IsAbs(file) && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file
		}
	}
	return ""
}
