package guard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
)

func TestGuard(t *testing.T) {
	g, err := New([]string{"10.1.0.0/16", "192.168.7.7", "db.internal", "*.corp", ""})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		addr string
		ok   bool
	}{
		{"93.184.216.34", true}, {"8.8.8.8", true}, {"2606:4700::1111", true}, {"64:ff9b::8.8.8.8", true},
		{"10.1.2.3", true}, {"192.168.7.7", true}, {"::ffff:10.1.2.3", true},
		{"10.2.0.1", false}, {"127.0.0.1", false}, {"127.255.0.9", false}, {"0.0.0.0", false}, {"169.254.169.254", false},
		{"100.64.0.1", false}, {"100.100.100.200", false}, {"172.16.0.1", false}, {"172.31.255.255", false},
		{"192.168.7.8", false}, {"192.0.0.192", false}, {"198.18.0.1", false}, {"224.0.0.1", false}, {"239.1.1.1", false},
		{"255.255.255.255", false}, {"240.0.0.1", false}, {"168.63.129.16", false},
		{"::1", false}, {"::", false}, {"fe80::1", false}, {"fe80::1%eth0", false}, {"fc00::1", false}, {"fd00:ec2::254", false},
		{"ff02::1", false}, {"::ffff:127.0.0.1", false}, {"::ffff:169.254.169.254", false}, {"::127.0.0.1", false},
		{"64:ff9b::127.0.0.1", false}, {"::ffff:0:127.0.0.1", false}, {"64:ff9b::a9fe:a9fe", false}, {"64:ff9b:1::1", false},
		{"2002:7f00:1::", false}, {"2002:a9fe:a9fe::1", false}, {"2001::1", false}, {"2001:db8::1", false},
	} {
		if err := g.Check(netip.MustParseAddr(c.addr)); (err == nil) != c.ok {
			t.Errorf("%s: %v, want ok=%t", c.addr, err, c.ok)
		}
	}
	for host, want := range map[string]bool{
		"db.internal": true, "DB.internal.": true, "x.db.internal": false, "a.corp": true, "a.B.corp.": true,
		"corp": false, ".corp": false, "acorp": false, "a.corp.example": false,
	} {
		if got := g.named(host); got != want {
			t.Errorf("%s: %t", host, got)
		}
	}
	for _, bad := range []string{"10.0.0.0/99", "http://x", "a b"} {
		if _, err := New([]string{bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestDial dials a listener on the loopback by address and by name.
func TestDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, c := range []struct {
		allow, host string
		ok          bool
	}{
		{"", "127.0.0.1", false}, {"127.0.0.1", "127.0.0.1", true}, {"127.0.0.0/8", "localhost", true},
		{"", "localhost", false}, {"LOCALHOST.", "localhost", true}, {"10.0.0.0/8", "127.0.0.1", false},
	} {
		g, err := New([]string{c.allow})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := g.Dial(context.Background(), "tcp4", net.JoinHostPort(c.host, port))
		if err == nil {
			conn.Close()
		}
		if (err == nil) != c.ok || !c.ok && !errors.Is(err, ErrRefused) {
			t.Errorf("%s with %q allowed: %v", c.host, c.allow, err)
		}
	}
}
