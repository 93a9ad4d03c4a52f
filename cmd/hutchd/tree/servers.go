package tree

import (
	"fmt"

	"hutch/aggd/oauth"
	"hutch/cmd/hutchd/workload"
	"hutch/fs"
)

func serverVerbs() []verb {
	return []verb{
		{Name: "start", Max: 0, Do: startServer, Doc: "start the server; returns when it has said what it offers"},
		{Name: "stop", Max: 0, Do: stopServer, Doc: "stop it with its sandbox"},
		{Name: "restart", Max: 0, Do: restartServer, Doc: "stop it if it runs, and start it"},
		{Name: "run", Args: "REF [ARG…]", Min: 1, Max: -1, Do: runServer, Doc: "have it be what REF names, with arguments, and start it"},
		{Name: "login", Args: "[device]", Min: 0, Max: 1, Do: loginServer, Doc: "have a person log in to a remote server, as the file login says; returns when that is done"},
		{Name: "logout", Max: 0, Do: logoutServer, Doc: "forget what the login has brought"},
		{Name: "set", Args: "PATH [VALUE]", Min: 1, Max: 2, Do: setServer, Doc: "change a field of config, while stopped, to a text or JSON; without a value, take it away"},
		{Name: "allow", Args: "HOST…", Min: 1, Max: -1, Do: allowServer, Doc: "have it reach hosts, too; one that runs is started again"},
	}
}

func startServer(c call, _ []string) error { return c.At.server.Start(c.Ctx) }
func stopServer(c call, _ []string) error  { return c.At.server.Stop(c.Ctx) }

func restartServer(c call, _ []string) error {
	if err := c.At.server.Stop(c.Ctx); err != nil {
		return err
	}
	return c.At.server.Start(c.Ctx)
}

func runServer(c call, args []string) error { return c.At.server.Run(c.Ctx, args[0], args[1:]) }

func allowServer(c call, args []string) error { return c.At.server.Allow(c.Ctx, args) }

func setServer(c call, args []string) error {
	return c.At.server.Set(c.Ctx, args[0], append(args[1:], "")[0])
}

func loginServer(c call, args []string) error {
	switch {
	case len(args) == 0:
		return c.At.server.Login(c.Ctx, oauth.Browser)
	case args[0] == string(oauth.Device):
		return c.At.server.Login(c.Ctx, oauth.Device)
	}
	return fmt.Errorf("%w: login %s: write login, or login device", fs.ErrInvalid, fs.Quote(args[0]))
}

func logoutServer(c call, _ []string) error { return c.At.server.Logout(c.Ctx) }

func serverLogin(c call) (string, error)  { return c.At.server.LoginText(), nil }
func serverName(c call) (string, error)   { return c.At.server.Name + "\n", nil }
func serverStatus(c call) (string, error) { return shownTo(c.Who, c.At.server.Status()), nil }
func serverConfig(c call) (string, error) { return c.At.server.ConfigText(), nil }
func serverConfigErr(c call) error        { return c.At.server.ConfigErr() }
func gatewayErr(c call) (string, error)   { return c.At.gw.LastErr.Text(), nil }

func setServerConfig(c call, text string) error { return c.At.server.SetConfig(c.Ctx, text) }

func serverConfigReady(c call) error { return c.At.server.Editable() }

func serverNames(c call) ([]string, error) {
	var names []string
	for _, s := range c.At.s.workloads.Servers() {
		names = append(names, s.Name)
	}
	return names, nil
}

func enterServer(c call, name string) (at, error) {
	s, err := c.At.s.workloads.Server(name)
	if err != nil {
		return at{}, err
	}
	return atServer(c.At.s, s), nil
}

func atServer(s *Server, v *workload.Server) at { return at{s: s, server: v, gw: v.Gateway} }

func makeServer(c call, name string) error {
	_, err := c.At.s.workloads.MakeServer(name)
	return err
}

func dropServer(c call, name string) error {
	err := c.At.s.workloads.RemoveServer(c.Ctx, name)
	if err == nil {
		c.At.s.gone("servers/" + name)
	}
	return err
}
