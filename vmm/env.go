package vmm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"hutch/fs"
	"hutch/vmm/image"
)

// variable is what names of variables are like.
var variable = regexp.MustCompile("^[a-zA-Z_][a-zA-Z0-9_]{0,255}$")

// Linux starts a program with strings of 128 KiB each, a variable's name and what
// ends it included, and 2 MiB of them, which the arguments and the image's
// variables have a part of.
const (
	maxEnvValue = 127 << 10
	maxEnv      = 1 << 20
	envCost     = 64 // of a variable, beside its name and value
)

// CheckEnvSize says why the file of a variable, in the folder env of a VM, cannot
// have a text of that length beside the others there. Those of editors count, as
// they may become variables. Beside too much it can be what is no longer than it is.
func CheckEnvSize(env, name string, text []byte) error {
	if len(bytes.TrimSuffix(text, []byte{'\n'})) > maxEnvValue {
		return errEnvValue
	}
	entries, err := os.ReadDir(env)
	if err != nil {
		return err
	}
	var all envSize
	for _, e := range entries {
		switch fi, err := e.Info(); {
		case err != nil:
		case e.Name() != name:
			all.add(e.Name(), int(fi.Size()))
		case int64(len(text)) <= fi.Size():
			return nil
		}
	}
	if err := all.add(name, len(text)); err != nil {
		return fmt.Errorf("%w: remove one first", err)
	}
	return nil
}

// An envSize is what variables take of the room that there is for them.
type envSize int

func (s *envSize) add(name string, size int) error {
	if *s += envSize(len(name) + size + envCost); *s > maxEnv {
		return errEnv
	}
	return nil
}

var (
	errEnvValue = fmt.Errorf("%w: a variable has at most %d bytes", fs.ErrArgs, maxEnvValue)
	errEnv      = fmt.Errorf("%w: the variables of a VM have at most %d bytes together, with %d more for each", fs.ErrArgs, maxEnv, envCost)
)

// checkEnvValue says what is wrong with value as the value of a variable.
func checkEnvValue(value string) error {
	if len(value) > maxEnvValue {
		return errEnvValue
	}
	if strings.IndexByte(value, 0) >= 0 {
		return fmt.Errorf("%w: a variable has no NUL in it", fs.ErrInvalid)
	}
	return nil
}

// Env returns the VM's variables as K=V, sorted, from the folder env, each
// without the newline that may end its file. Files whose names are no
// variables, as editors leave them, mean nothing; a value that cannot be one,
// or that the profile does not admit, is an error.
func (v *VM) Env() ([]string, error) {
	entries, err := os.ReadDir(v.path("env"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	admit := v.t.profile(v.look().config).AdmitEnv
	var env []string
	var all envSize
	for _, e := range entries {
		if !variable.MatchString(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		value, err := readEnv(v.path(filepath.Join("env", e.Name())))
		if err == nil && admit != nil {
			err = admit(e.Name(), value)
		}
		if err == nil {
			err = all.add(e.Name(), len(value))
		}
		if err != nil {
			return nil, fmt.Errorf("env/%s: %w", e.Name(), err)
		}
		env = append(env, e.Name()+"="+value)
	}
	return env, nil
}

// imageEnv returns the variables that the image sets. Those that cannot be
// variables, or would be taken for hutch's own, are left out.
func imageEnv(img image.Image) []string {
	var env []string
	for _, kv := range img.Env {
		key, value, _ := strings.Cut(kv, "=")
		if !variable.MatchString(key) || checkEnvValue(value) != nil || strings.HasPrefix(key, "HUTCH_") || len(env) == maxImageEnv {
			continue
		}
		if key == "PATH" {
			value = strings.TrimSuffix(value, ":") + ":" + guestBin
		}
		env = append(env, key+"="+value)
	}
	return env
}

// checkImageEnv says which variable of an image is too long for any program to be
// started with it.
func checkImageEnv(img image.Image) error {
	for _, kv := range img.Env {
		if key, value, _ := strings.Cut(kv, "="); len(value) > maxEnvValue {
			return fmt.Errorf("image %s: variable %s: %w, and it has %d", img.Name, fs.Shorten(key), errEnvValue, len(value))
		}
	}
	return nil
}

// maxImageEnv is how many variables an image may set.
const maxImageEnv = 1000

func readEnv(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEnvValue+2))
	if err != nil {
		return "", err
	}
	value := strings.TrimSuffix(string(data), "\n")
	return value, checkEnvValue(value)
}
