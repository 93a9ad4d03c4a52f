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

// addHost takes a host of -allow. Whether it names one, the service says, of the profile.
func (s *settings) addHost(host string) error {
	if host == "" || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r == 0x7f }) {
		return fmt.Errorf("want a host as pypi.org, *.debian.org or pypi.org:443")
	}
	s.hosts = append(s.hosts, host)
	return nil
}

// permit makes a profile for the VM called name, if -allow named hosts: it extends the one
// that was said, with those hosts in network.allow.
func (s *settings) permit(c *tree, name string) error {
	if len(s.hosts) == 0 {
		return nil
	}
	base := cmp.Or(s.lines["profile"], "default")
	allowed, err := s.allowed(c, base)
	if err != nil {
		return err
	}
	file := path.Join("profiles", "run-"+name+".toml")
	if text, err := readFile(c, file); err == nil && !strings.HasPrefix(text, madeProfile) {
		return fmt.Errorf("%w: %s, which -allow would write", fs.ErrExist, file)
	}
	text := fmt.Sprintf("%sextends = %q\nnet = \"host-proxy\"\n\n[network]\nallow = [%s]\n", madeProfile, base, allowed)
	if err := setFile(c, file, 0o600, text); err != nil {
		return err
	}
	s.lines["profile"], s.made = "run-"+name, file
	return nil
}

// forbid removes the profile that permit has made, if it has.
func (s *settings) forbid(c *tree) {
	if s.made != "" {
		c.remove(s.made) // where that fails, the next VM of the name overwrites it
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
