package tree

import "strings"

func groupVerbs() []verb {
	return []verb{
		{Name: "start", Max: 0, Do: startGroup, Doc: "begin to serve the group, as the first session or look at its tools does; returns when its members have said what they offer"},
		{Name: "stop", Max: 0, Do: stopGroup, Doc: "serve it no longer; its members stay as they are"},
		{Name: "remove", Args: "SERVER", Min: 1, Max: 1, Do: leaveGroup, Doc: "have a member be in no group"},
	}
}

func startGroup(c call, _ []string) error    { return c.At.group.Start(c.Ctx) }
func leaveGroup(c call, args []string) error { return c.At.group.Leave(c.Ctx, args[0]) }
func stopGroup(c call, _ []string) error     { return c.At.group.Stop(c.Ctx) }

// begun has a group be served, of which somebody wants more than its files.
func begun(c call) error {
	if c.At.group == nil {
		return nil
	}
	return c.At.group.Start(c.Ctx)
}

func groupName(c call) (string, error)   { return c.At.group.Name + "\n", nil }
func groupStatus(c call) (string, error) { return shownTo(c.Who, c.At.group.Status()), nil }
func groupConfig(c call) (string, error) { return c.At.group.ConfigText(), nil }
func groupConfigErr(c call) error        { return c.At.group.ConfigErr() }

func groupMembers(c call) (string, error) {
	var b strings.Builder
	for _, s := range c.At.group.Members() {
		b.WriteString(s.Name + "\n")
	}
	return b.String(), nil
}

// joinGroup has a server be in the group, which it leaves when it is in another.
func joinGroup(c call, line string) error {
	name := strings.TrimSpace(line)
	if name == "" {
		return nil
	}
	return c.At.group.Join(c.Ctx, name)
}

func setGroupConfig(c call, text string) error { return c.At.group.SetConfig(c.Ctx, text) }

func groupNames(c call) ([]string, error) {
	var names []string
	for _, g := range c.At.s.workloads.Groups() {
		names = append(names, g.Name)
	}
	return names, nil
}

func enterGroup(c call, name string) (at, error) {
	g, err := c.At.s.workloads.Group(name)
	if err != nil {
		return at{}, err
	}
	return at{s: c.At.s, group: g, gw: g.Gateway}, nil
}

func makeGroup(c call, name string) error { return c.At.s.workloads.MakeGroup(name) }

func dropGroup(c call, name string) error {
	err := c.At.s.workloads.RemoveGroup(c.Ctx, name)
	if err == nil {
		c.At.s.gone("groups/" + name)
	}
	return err
}
