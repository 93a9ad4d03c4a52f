package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/term"

	"hutch/fs"
	"hutch/fs/quantity"
)

// options say how a command is run, where it is not as its image has it.
type options struct {
	env        []string // K=V, or K as it is here
	fileEnv    []string // the same, of files: env goes before
	dir, user  string
	timeout    string
	tty, noTTY bool
	detach     bool

	began bool // the command has
}

// defineOptions declares the flags that run and exec have in common.
func defineOptions(flags *flag.FlagSet) *options {
	o := &options{}
	flags.Func("e", "with this `variable`: K=V, or K as it is here; may come several times", o.addVariable)
	flags.Func("env-file", "with the variables in this `file`, a line each; may come several times", o.addFile)
	flags.StringVar(&o.dir, "w", "", "start in this `folder` of the guest")
	flags.StringVar(&o.user, "u", "", "as this `user` of the guest: name or number, with :group if wanted")
	flags.Func("timeout", "end the command after this `time`, as 60s or 5m", o.setTimeout)
	flags.BoolVar(&o.tty, "t", false, "on a terminal, even if we are on none")
	flags.BoolVar(&o.tty, "it", false, "the same as -t")
	flags.Bool("i", false, "pass our input to the command, which is done anyway")
	flags.BoolVar(&o.noTTY, "T", false, "on no terminal, even if we are on one")
	flags.BoolVar(&o.detach, "d", false, "do not wait for the command: print what hutch logs knows it by")
	return o
}

// onTerminal says whether the command is to have a terminal.
func (o *options) onTerminal() bool {
	if o.tty || o.noTTY {
		return o.tty
	}
	return !o.detach && term.IsTerminal(0) && term.IsTerminal(1)
}

func (o *options) addVariable(kv string) error {
	if kv == "" || kv[0] == '=' {
		return errors.New("want K=V or K")
	}
	o.env = append(o.env, kv)
	return nil
}

// addFile takes the variables of a file as docker does: a value is all behind the first =,
// and a line that is empty or begins with # is none.
func (o *options) addFile(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t")
		switch k, _, _ := strings.Cut(line, "="); {
		case line == "" || line[0] == '#':
		case k == "" || strings.ContainsAny(k, " \t\x00"):
			return fmt.Errorf("line %d: %.64q: want K=V or K", n, line)
		default:
			o.fileEnv = append(o.fileEnv, line)
		}
	}
	return nil
}

// setTimeout takes what the guest's timeout verb does.
func (o *options) setTimeout(s string) error {
	d, err := quantity.Timeout(s)
	if err != nil {
		return err
	}
	o.timeout = quantity.TimeText(d)
	return nil
}

// messages are the control messages that have a command run so.
func (o *options) messages() []string {
	var list []string
	for _, kv := range slices.Concat(o.fileEnv, o.env) {
		k, v, said := strings.Cut(kv, "=")
		if !said {
			v, said = os.LookupEnv(k)
		}
		if said {
			list = append(list, "env "+fs.Quote(k)+" "+fs.Quote(v))
		}
	}
	for _, m := range [][2]string{{"dir", o.dir}, {"user", o.user}, {"timeout", o.timeout}} {
		if m[1] != "" {
			list = append(list, m[0]+" "+fs.Quote(m[1]))
		}
	}
	return list
}

// An imageConfig is what an image says of the commands in it.
type imageConfig struct {
	entrypoint, cmd []string
	user, dir       string
}

// imageOf reads what the image of a VM says.
func imageOf(c *tree, vm string) (imageConfig, error) {
	var i imageConfig
	status, err := readFile(c, path.Join(vm, "status"))
	if err != nil {
		return i, err
	}
	info, err := readFile(c, path.Join("images", pairs(status)["image"], "info"))
	if err != nil {
		return i, nil // it was removed: nothing is known of it
	}
	said := pairs(info)
	if i.entrypoint, err = fs.LineWords(said["entrypoint"], -1); err != nil {
		return i, err
	}
	i.cmd, err = fs.LineWords(said["cmd"], -1)
	i.user, i.dir = said["user"], said["workdir"]
	return i, err
}

// command is what runs where a user says args.
func (i imageConfig) command(args []string) []string {
	if len(args) == 0 {
		args = i.cmd
	}
	return slices.Concat(i.entrypoint, args)
}

// defaults has the image's user and folder hold where the user says none.
func (o *options) defaults(i imageConfig) {
	o.user, o.dir = cmp.Or(o.user, i.user), cmp.Or(o.dir, i.dir)
}
