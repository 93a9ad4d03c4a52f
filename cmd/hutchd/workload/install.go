package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"hutch/aggd/programs"
	"hutch/aggd/wire"
	"hutch/cmd/hutchd/gateway"
	"hutch/cmd/hutchd/sandbox"
	"hutch/fs"
	"hutch/mcpd/ledger"
	"hutch/profiles"
	"hutch/profiles/permission"
	"hutch/profiles/runconfig"
)

// An installation is what a sandbox has of a package.
type installation struct {
	Tool, Name, What string // as of a pack
}

// installationFile is in the folder of the sandbox's VM, and goes with it.
const installationFile = "installed.json"

// install has the sandbox of the server have the package that it is, if it is one. It
// is not installed again unless it is another, or its version may be another today and
// somebody asks to look.
//
// What installs it, and what the package does meanwhile, has the network of the
// package's registry, and of the server's only the variables that hold no secret, by
// which a package may be told what to leave out: no secrets, and none of the folders that
// it may see. The machine ends before the server starts, which has its own network alone.
func (s *Server) install(ctx context.Context, c *runconfig.Server, look bool) error {
	p, ok := packOf(c.Source)
	if !ok {
		return nil
	}
	was := s.w.installation(ofServer(s.Name))
	there := p.same(was) && was.What == p.what && s.w.has(ofServer(s.Name), p.program)
	if there && !(p.moves && look) {
		return nil
	}
	if err := s.check(ctx, c); err != nil {
		return err
	}
	s.Tell(ledger.VMs, s.NewEvent("installing", p.what))
	err := s.w.install(ctx, s.Gateway, c, p, was)
	switch {
	case err == nil:
		if !there {
			s.tellNode(p)
		}
		return nil
	case there && p.folder == "" && ctx.Err() == nil: // what a person has written is to be what runs
		asker{g: s.Gateway, server: s.Name}.tell("server.outdated", "what is installed is run, as no newer can be had: "+s.Hides(fs.Text(err)))
		return nil
	}
	return fmt.Errorf("%s: %w", &p, err)
}

// check says why the server could not be started when its package is installed: a secret
// is not there, or a folder that it is to see cannot be shown.
func (s *Server) check(ctx context.Context, c *runconfig.Server) error {
	for _, secret := range c.Secrets {
		if _, err := s.Resolve(ctx, secret.Reference.String()); err != nil {
			return fmt.Errorf("variable %s: %w", secret.Variable, err)
		}
	}
	p, err := s.w.s.Profiles.Get(s.ProfileName())
	if err != nil {
		return err
	}
	b, err := boxOf(c, permission.TermsOf(p))
	if err != nil {
		return err
	}
	return s.w.use(ctx, ofServer(s.Name), func(ctx context.Context, at place, own *box) error {
		return s.w.check(ctx, at, own, b)
	})
}

// check says why the sandbox of a place could not be started as b says. It is arranged so
// then, until it is made ready for something else.
func (w *Workloads) check(ctx context.Context, at place, own *box, b profiles.Box) error {
	v, err := w.s.Lookup(at.vm())
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && v.Config().Profile != at.profile():
		return nil // which ready has an error for
	}
	own.text = ""
	if v, err = w.arrange(ctx, v, at, b); err != nil {
		return err
	}
	return v.Check(ctx)
}

// installation returns what a sandbox has.
func (w *Workloads) installation(at place) (i installation) {
	v, err := w.s.Lookup(at.vm())
	if err != nil || v.Config().Profile != at.profile() {
		return i
	}
	text, err := os.ReadFile(filepath.Join(v.Dir(), installationFile))
	if err != nil || json.Unmarshal(text, &i) != nil {
		return installation{}
	}
	return i
}

// has says whether the workspace of a sandbox has a file of the guest.
func (w *Workloads) has(at place, file string) bool {
	work, err := w.workspace(at)
	if err != nil {
		return false
	}
	defer work.Close()
	_, err = work.Lstat(inWorkspace(file))
	return err == nil
}

// workspace opens the workspace of a sandbox, which the guest can write.
func (w *Workloads) workspace(at place) (*os.Root, error) {
	v, err := w.s.Lookup(at.vm())
	if err != nil {
		return nil, err
	}
	return os.OpenRoot(v.WorkDir())
}

func inWorkspace(file string) string { return strings.TrimPrefix(file, home+"/") }

// forgetInstalled has the package of a server installed anew at its next start.
func (w *Workloads) forgetInstalled(at place) {
	if v, err := w.s.Lookup(at.vm()); err == nil && v.Config().Profile == at.profile() {
		os.Remove(filepath.Join(v.Dir(), installationFile))
	}
}

// install installs a package in the sandbox of a server, and ends the sandbox's machine.
func (w *Workloads) install(ctx context.Context, g *gateway.Gateway, c *runconfig.Server, p pack, was installation) error {
	at := ofServer(g.Of())
	a := asker{g: g, server: g.Of(), own: c, profile: g.ProfileName(), installs: true}
	tool, mounts, err := p.find(a, c)
	if err != nil {
		return err
	}
	b := profiles.Box{Net: profiles.NetProxy, Network: p.network(), Mounts: mounts, RAM: c.RAM, Disk: c.Disk}
	v, err := w.ready(ctx, at, b)
	if err != nil {
		return fmt.Errorf("sandbox %s: %w", at.vm(), err)
	}
	w.ask(at, a)
	if p.same(was) {
		err = p.run(ctx, w, v, a, tool, p.script)
	} else {
		w.forgetInstalled(at)
		err = p.run(ctx, w, v, a, tool, `rm -rf "${1%/*}"; `+p.script)
	}
	killed := w.use(context.WithoutCancel(ctx), at, w.rest)
	if err = errors.Join(err, killed); err != nil {
		return err
	}
	text, err := json.Marshal(installation{p.tool, p.name, p.what})
	if err != nil {
		return err
	}
	return fs.WriteFile(filepath.Join(v.Dir(), installationFile), text, true)
}

// find returns where the tool is, and the folders of the server's volumes that have
// it where the image does not.
func (p *pack) find(a asker, c *runconfig.Server) (tool string, mounts []profiles.Mount, err error) {
	words := wire.Program{Command: p.tool, Env: map[string]string{"PATH": c.Env["PATH"]}}
	tool = find(words)
	if tool == "" {
		return "", nil, fmt.Errorf("%w: there is no program %s on this machine: install it, or run the server from an image", fs.ErrNotExist, p.tool)
	}
	lacks := view(nil).lacks(tool)
	for _, m := range c.Mounts {
		if m.Host != m.Guest || !m.ReadOnly {
			continue
		}
		for _, dir := range lacks {
			if profiles.Within(m.Host, dir) {
				mounts = append(mounts, profiles.Mount{Host: m.Host, Guest: m.Guest, ReadOnly: true})
			}
		}
	}
	if lacks = view(mounts).lacks(tool); len(lacks) > 0 {
		return "", nil, fmt.Errorf(notShown+" %s: %s", tool, a.read(lacks))
	}
	if p.folder != "" {
		more, err := own(moduleOf(p.folder), mounts)
		return tool, append(mounts, more...), err
	}
	return tool, mounts, nil
}

// run runs the script in the sandbox, and fails with its last words and what it was
// denied. What it writes is in the server's log.
func (p *pack) run(ctx context.Context, w *Workloads, v *sandbox.Sandbox, a asker, tool, script string) error {
	in, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		in.Close()
		return err
	}
	said := programs.NewComplaints(a.server, a.g.AggLog(), a.g.Preview)
	how, began := "", time.Now()
	env := p.environment(a.own.Env)
	env["PATH"] = path.Dir(tool) + ":" + programs.DefaultPath
	task, err := v.StartProgram(ctx, fmt.Sprintf("install-%d", w.s.NextID()), sandbox.Given{Env: env}, programs.Start{
		Server:  a.server,
		Program: wire.Program{Command: "sh", Args: []string{"-c", "exec >&2\n" + script, "sh", p.place(), p.what, p.name}},
		In:      in, Out: out, Log: said, Gone: func(text string) { how = text },
	})
	if err != nil {
		return err
	}
	select {
	case <-task.Exited():
	case <-ctx.Done():
		task.Kill()
		return context.Cause(ctx)
	}
	if how != "exit status 0" {
		return fmt.Errorf("%w: %s (%s)%s", fs.ErrIO, said.Last(), how, a.lacking(w.told(ofServer(a.server), began)))
	}
	return nil
}
