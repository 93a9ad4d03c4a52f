package hostmcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"hutch/fs"
)

type (
	made struct {
		ID         string `json:"id"`
		State      string `json:"state"`
		Persistent bool   `json:"persistent"`
		Image      string `json:"image,omitempty"`
	}
	vmLine struct {
		ID     string `json:"id"`
		State  string `json:"state"`
		Driver string `json:"driver"`
		Image  string `json:"image"`

		Persistent bool   `json:"persistent"`
		RAM        string `json:"ram,omitempty"`    // as its status tells the limit
		Memory     string `json:"memory,omitempty"` // that it takes; of one that runs
		Disk       string `json:"disk,omitempty"`
	}
	listed struct {
		Sandboxes []vmLine `json:"sandboxes"`
	}
	described struct {
		ID         string            `json:"id"`
		State      string            `json:"state"`
		Persistent bool              `json:"persistent"`
		Status     map[string]string `json:"status"`
		Config     map[string]string `json:"config"`
		Env        []string          `json:"env"` // names: values may be secrets
	}
	stateOf struct {
		ID    string `json:"id"`
		State string `json:"state"`
	}
	removed struct {
		Deleted []string `json:"deleted"`
	}
)

// gone is the state of a sandbox that there is no more.
const gone = "gone"

// isName says whether a sandbox, or a command, may be called name: what leads
// elsewhere is none.
func isName(name string) bool {
	return name != "" && name != "clone" && name[0] != '.' && !strings.ContainsAny(name, "/\x00")
}

// vm is the sandbox that a call is about, and dir its directory.
func (c *call) vm() string  { return cmp.Or(c.args.text("id"), c.args.text("name")) }
func (c *call) dir() string { return path.Join("vm", c.vm()) }

// create makes a sandbox that runs, or leaves none.
func (c *call) create(ctx context.Context) (any, error) {
	name, from := c.args.text("name"), cmp.Or(c.args.text("from"), c.args.text("image"))
	image, copied, err := c.origin(ctx, from, c.args.text("version"))
	if err != nil {
		return nil, err
	}
	if copied {
		return c.createCopy(ctx, from, name)
	}
	messages := c.settings(image)
	if name == "" {
		return c.createAnonymous(ctx, messages)
	}
	err = c.make(ctx, func(ctx context.Context, t *tree) error { return t.mkdir(ctx, path.Join("vm", name)) })
	if err != nil {
		return nil, err
	}
	return c.started(ctx, name, messages)
}

// started sets and starts a sandbox that was made, or removes it.
func (c *call) started(ctx context.Context, name string, messages []string) (any, error) {
	dir := path.Join("vm", name)
	err := c.setEnv(ctx, dir)
	if err == nil {
		err = c.t.tell(ctx, dir+"/ctl", append(messages, "start")...)
	}
	var r made
	if err == nil {
		r, err = c.readMade(ctx, name)
	}
	if err != nil {
		return nil, c.discard(ctx, dir, err)
	}
	return r, nil
}

// discard removes the sandbox or command that a call made, which failed because of
// err, and returns that.
func (c *call) discard(ctx context.Context, dir string, err error) error {
	return errors.Join(err, c.whole(ctx, func(ctx context.Context, t *tree) error {
		t.tell(ctx, dir+"/ctl", "kill") // which what does not run refuses
		if err := t.remove(ctx, dir, true); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}))
}

// make does what makes something, also where the call is cancelled meanwhile: else
// nobody would know whether there is anything to discard.
func (c *call) make(ctx context.Context, do func(context.Context, *tree) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.whole(ctx, do)
}

// wholeLimit is how long whole may take from when the call is cancelled. To kill a
// sandbox can take hutchd 15 seconds.
const wholeLimit = 20 * time.Second

// whole does to its end, though the call is cancelled, what makes or undoes
// something: over a connection of its own, as that of the call ends with it.
func (c *call) whole(ctx context.Context, do func(context.Context, *tree) error) error {
	whole, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(cmp.Or(c.h.wholeLimit, wholeLimit)):
			cancel(fmt.Errorf("%w: hutchd does not answer", fs.ErrTimedOut))
		case <-whole.Done():
		}
	})
	defer stop()
	t, err := c.h.service.dial(whole)
	if err == nil {
		defer t.close()
		err = do(whole, t)
	}
	if err != nil && whole.Err() != nil {
		return context.Cause(whole)
	}
	return err
}

func (c *call) createAnonymous(ctx context.Context, messages []string) (any, error) {
	ctl, name, err := c.t.clone(ctx, "vm")
	if err == nil {
		err = c.setEnv(ctx, path.Join("vm", name))
	}
	for _, m := range append(messages, "start") {
		if err == nil {
			err = ctl.tell(ctx, m)
		}
	}
	if err != nil {
		return nil, err // it goes with the connection
	}
	result, err := c.readMade(ctx, name)
	if err == nil {
		c.h.holdVM(c, name)
	}
	return result, err
}

// createCopy makes a copy of another sandbox and starts it.
func (c *call) createCopy(ctx context.Context, from, name string) (any, error) {
	if name == "" {
		return nil, fmt.Errorf("%w: a copy of sandbox %q wants a name", fs.ErrInvalid, from)
	}
	if err := c.copyVM(ctx, from, "fork ", name); err != nil {
		return nil, err
	}
	return c.started(ctx, name, c.settings(""))
}

// copyVM makes a copy of a sandbox by a message.
func (c *call) copyVM(ctx context.Context, from, message, name string) error {
	return c.make(ctx, func(ctx context.Context, t *tree) error {
		return t.tell(ctx, path.Join("vm", from, "ctl"), message+fs.Quote(name))
	})
}

func (c *call) readMade(ctx context.Context, name string) (r made, err error) {
	text, err := c.t.text(ctx, path.Join("vm", name, "status"))
	if err != nil {
		return r, err
	}
	state, _, _ := strings.Cut(text, "\n")
	status := pairs(text)
	return made{name, state, status["anonymous"] == "", status["image"]}, nil
}

// settings are the control messages that the arguments stand for.
func (c *call) settings(image string) (messages []string) {
	set := func(key, value string) { messages = append(messages, "set "+key+" "+fs.Quote(value)) }
	if image != "" {
		set("image", image)
	}
	if n := c.args.number("ramMb"); n > 0 {
		set("ram", fmt.Sprintf("%dMiB", n))
	}
	if n := c.args.number("cpuCount"); n > 0 {
		set("cpus", fmt.Sprint(n))
	}
	for _, key := range []string{"profile", "undo"} {
		if v := c.args.text(key); v != "" {
			set(key, v)
		}
	}
	return messages
}

func (c *call) setEnv(ctx context.Context, dir string) error {
	env := c.args.textMap("env")
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if k == "" || strings.Contains(k, "/") {
			return fmt.Errorf("%w: %q is not the name of a variable", fs.ErrInvalid, k)
		}
		if err := c.t.store(ctx, path.Join(dir, "env", k), []byte(env[k]), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// origin returns the image that is meant, or says that a sandbox is.
func (c *call) origin(ctx context.Context, from, version string) (image string, vm bool, err error) {
	if from == "" && version == "" {
		return "", false, nil
	}
	ref := cmp.Or(from, "host")
	if version != "" {
		ref += "-" + version // as hutch pull names IMAGE:VERSION
	}
	if strings.Contains(ref, "/") {
		ref = path.Base(ref)
	}
	ref = strings.ReplaceAll(ref, ":", "-")
	if _, err = c.t.stat(ctx, path.Join("images", ref)); err == nil {
		return ref, false, nil
	}
	if errors.Is(err, fs.ErrNotExist) && isName(from) && version == "" {
		if _, err = c.t.stat(ctx, path.Join("vm", from)); err == nil {
			return "", true, nil
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	return "", false, fmt.Errorf("%w: neither an image nor a sandbox is called %q; hutch pull gets images", fs.ErrNotExist, ref)
}

func (c *call) list(ctx context.Context) (any, error) {
	text, err := c.t.text(ctx, "status")
	if err != nil {
		return nil, err
	}
	l := listed{[]vmLine{}}
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) < 4 {
			continue
		}
		status, err := c.t.text(ctx, path.Join("vm", w[0], "status"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it went meanwhile
		}
		if err != nil {
			return nil, err
		}
		said := pairs(status)
		l.Sandboxes = append(l.Sandboxes, vmLine{w[0], w[1], w[2], w[3], said["anonymous"] == "", said["ram"], said["memory"], said["disk"]})
	}
	return l, nil
}

func (c *call) info(ctx context.Context) (any, error) {
	name, dir := c.vm(), c.dir()
	status, err := c.t.text(ctx, dir+"/status")
	if err != nil {
		return nil, err
	}
	config, err := c.t.text(ctx, dir+"/config")
	if err != nil {
		return nil, err
	}
	variables, err := c.t.list(ctx, dir+"/env")
	if err != nil {
		return nil, err
	}
	d := described{ID: name, Status: pairs(status), Config: pairs(config), Env: []string{}}
	d.State, _, _ = strings.Cut(status, "\n")
	delete(d.Status, d.State)
	d.Persistent = d.Status["anonymous"] == ""
	for _, v := range variables {
		d.Env = append(d.Env, v.Name)
	}
	return d, nil
}

// control tells a sandbox a message and returns its state then.
func (c *call) control(ctx context.Context, message string) (stateOf, error) {
	if err := c.t.tell(ctx, c.dir()+"/ctl", message); err != nil {
		return stateOf{}, err
	}
	return c.readState(ctx, c.vm())
}

func (c *call) readState(ctx context.Context, name string) (stateOf, error) {
	text, err := c.t.text(ctx, path.Join("vm", name, "status"))
	if errors.Is(err, fs.ErrNotExist) {
		c.h.releaseVM(name)
		return stateOf{name, gone}, nil
	}
	state, _, _ := strings.Cut(text, "\n")
	return stateOf{name, state}, err
}

func (c *call) stop(ctx context.Context) (any, error)    { return c.control(ctx, "stop") }
func (c *call) suspend(ctx context.Context) (any, error) { return c.control(ctx, "suspend") }

func (c *call) resume(ctx context.Context) (any, error) {
	status, err := c.t.text(ctx, c.dir()+"/status")
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(status, "suspended\n") {
		return c.control(ctx, "resume")
	}
	return c.control(ctx, "start")
}

func (c *call) persist(ctx context.Context) (any, error) {
	old, name := c.vm(), c.args.text("name")
	if err := c.t.tell(ctx, c.dir()+"/ctl", "persist "+fs.Quote(name)); err != nil {
		return nil, err
	}
	c.h.releaseVM(old)
	return c.readState(ctx, name)
}

func (c *call) delete(ctx context.Context) (any, error) {
	if err := c.removeVM(ctx, c.vm()); err != nil {
		return nil, err
	}
	return removed{[]string{c.vm()}}, nil
}

// removeVM removes a sandbox, and stops it first.
func (c *call) removeVM(ctx context.Context, name string) error {
	dir := path.Join("vm", name)
	status, err := c.t.text(ctx, dir+"/status")
	if err != nil {
		return err
	}
	state, _, _ := strings.Cut(status, "\n")
	if state != "created" && state != "stopped" && state != "failed" {
		if err := c.t.tell(ctx, dir+"/ctl", "kill"); err != nil {
			return err
		}
	}
	err = c.t.remove(ctx, dir, true)
	if c.h.releaseVM(name); pairs(status)["anonymous"] != "" && errors.Is(err, fs.ErrNotExist) {
		return nil // its end was enough
	}
	return err
}

func (c *call) purge(ctx context.Context) (any, error) {
	names, err := c.t.folders(ctx, "vm")
	if err != nil {
		return nil, err
	}
	r := removed{[]string{}}
	var failed error
	for _, name := range names {
		status, err := c.t.text(ctx, path.Join("vm", name, "status"))
		if err != nil || !c.args.flag("all") && pairs(status)["anonymous"] == "" {
			continue
		}
		if err := c.removeVM(ctx, name); errors.Is(err, fs.ErrNotExist) {
			continue // it was going
		} else if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		r.Deleted = append(r.Deleted, name)
	}
	return r, failed
}

func (c *call) fork(ctx context.Context) (any, error) { return c.copyAs(ctx, "fork ") }

// copyAs makes a copy and describes it, or leaves none.
func (c *call) copyAs(ctx context.Context, message string) (any, error) {
	name := c.args.text("name")
	err := c.copyVM(ctx, c.vm(), message, name)
	if err != nil {
		return nil, err
	}
	dir := path.Join("vm", name)
	if d := c.args.text("description"); d != "" {
		err = c.describe(ctx, dir+"/config", d)
	}
	var state stateOf
	if err == nil {
		state, err = c.readState(ctx, name)
	}
	if err != nil {
		return nil, c.discard(ctx, dir, err)
	}
	return state, nil
}

// describe puts a comment before a config.
func (c *call) describe(ctx context.Context, config, text string) error {
	was, err := c.t.text(ctx, config)
	if err != nil {
		return err
	}
	var kept strings.Builder
	for line := range strings.Lines(text + "\n") {
		kept.WriteString("# " + line)
	}
	for line := range strings.Lines(was) {
		if !strings.HasPrefix(line, "# default:") {
			kept.WriteString(line)
		}
	}
	return c.t.store(ctx, config, []byte(kept.String()), 0o600)
}
