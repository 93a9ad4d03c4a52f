package main

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"hutch/fs"
)

// madeProfile begins the profiles that we make.
const madeProfile = "# Made by hutch run -allow.\n"

// addHost takes a host of -allow; what names one, the profile says.
func (s *settings) addHost(host string) error {
	if host == "" || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r == 0x7f }) {
		return fmt.Errorf("want a host as pypi.org, *.debian.org or pypi.org:443")
	}
	s.hosts = append(s.hosts, host)
	return nil
}

// permit has the VM called name have a profile of its own if there are hosts that it
// may reach: the one that was said, with those hosts in network.allow. Forbid takes
// it away.
func (s *settings) permit(c *tree, name string) (forbid func(), err error) {
	if len(s.hosts) == 0 {
		return func() {}, nil
	}
	base := cmp.Or(s.lines["profile"], "default")
	allowed, err := s.allowed(c, base)
	if err != nil {
		return nil, err
	}
	file := path.Join("profiles", "run-"+name+".toml")
	if text, err := readFile(c, file); err == nil && !strings.HasPrefix(text, madeProfile) {
		return nil, fmt.Errorf("%w: %s, which -allow would write", fs.ErrExist, file)
	}
	text := fmt.Sprintf("%sextends = %q\nnet = \"host-proxy\"\n\n[network]\nallow = [%s]\n", madeProfile, base, allowed)
	if err := setFile(c, file, 0o600, text); err != nil {
		return nil, err
	}
	s.lines["profile"], s.made = "run-"+name, file
	return func() { s.forbid(c) }, nil
}

// forbid takes away the profile that permit has made, if so.
func (s *settings) forbid(c *tree) {
	if s.made != "" {
		c.remove(s.made) // a service that is gone has it until the next of the name
	}
}

// allowed returns the elements of network.allow, in TOML: those of the profile base and
// then the hosts.
func (s *settings) allowed(c *tree, base string) (string, error) {
	text, err := shownProfile(c, base)
	if err != nil {
		return "", err
	}
	var list []string
	for line := range strings.Lines(text) {
		_, value, found := strings.Cut(strings.TrimSpace(line), " [")
		if strings.HasPrefix(line, "network.allow ") && found && value != "]" {
			list = append(list, strings.TrimSuffix(value, "]"))
		}
	}
	for _, host := range s.hosts {
		list = append(list, `"`+host+`"`)
	}
	return strings.Join(list, ", "), nil
}
