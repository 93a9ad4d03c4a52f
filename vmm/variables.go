package vmm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"hutch/fs"
)

// variablesName is the file of the variables that a VM's machine was given since
// it was started, as K=V, with a NUL behind each: its memory may hold them all,
// whatever env/ and the profile say by now. It stays as long as the memory does.
// Where it is not, as for memory that was unpacked, they are not known.
const variablesName = "variables"

// maxVariables is how long it gets: of a machine that was given more they are not
// known either.
const maxVariables = 8 * maxEnv

// Give notes variables that the guest is about to be told, as K=V.
func (v *VM) Give(list []string) error {
	f, err := os.OpenFile(v.path(variablesName), os.O_WRONLY|os.O_APPEND, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = appendVariables(f, list)
	}
	if err != nil { // a full disk is not to end what they are for
		return os.RemoveAll(v.path(variablesName))
	}
	return nil
}

func appendVariables(f *os.File, list []string) error {
	defer f.Close()
	fi, err := f.Stat()
	if err == nil && fi.Size() > maxVariables {
		err = fs.ErrNoSpace
	}
	if err == nil {
		_, err = f.WriteString(variablesText(list))
	}
	return err
}

// giveFirst notes what a machine is started with.
func (v *VM) giveFirst(list []string) error {
	return fs.WriteFile(v.path(variablesName), []byte(variablesText(list)), false)
}

func variablesText(list []string) string { return strings.Join(list, "\x00") + "\x00" }

// lendVariables has a copy of the VM with its memory in dir know them, too.
func (v *VM) lendVariables(dir string) error {
	data, err := os.ReadFile(v.path(variablesName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fs.WriteFile(filepath.Join(dir, variablesName), data, false)
}

// variables returns what the machine was given, names more than once among them.
func (v *VM) variables() ([]string, error) {
	data, err := os.ReadFile(v.path(variablesName))
	if err != nil {
		return nil, err
	}
	text, whole := strings.CutSuffix(string(data), "\x00")
	if !whole {
		return nil, fmt.Errorf("%w: %s is cut off", fs.ErrIO, variablesName)
	}
	return strings.Split(text, "\x00"), nil
}
