package vault

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"

	"github.com/openbao/openbao/api/v2"

	"hutch/aggd/guard"
	"hutch/fs"
)

// maxAnswer is how many bytes the vault may answer.
const maxAnswer = 1 << 20

// newClient returns the client of the vault that the environment names. Its requests
// end with life.
func newClient(life context.Context) (*api.Client, error) {
	if api.ReadBaoVariable(api.EnvVaultAddress) == "" && api.ReadBaoVariable(api.EnvVaultAgentAddr) == "" {
		return nil, fmt.Errorf("%w: no vault is named: set BAO_ADDR or VAULT_ADDR in hutchd's environment", fs.ErrNotExist)
	}
	cfg := api.DefaultConfig()
	if cfg.Error != nil {
		return nil, fmt.Errorf("%w: the vault's settings in hutchd's environment: %w", fs.ErrInvalid, cfg.Error)
	}
	cfg.MaxRetries, cfg.Timeout, cfg.HttpClient.Timeout = 0, requestTime, requestTime
	t := cfg.HttpClient.Transport.(*http.Transport)
	t.Proxy = nil // which would be what is dialled
	d := new(dialer)
	t.DialContext = d.dial
	c, err := api.NewClient(cfg) // which dials otherwise where the vault is a socket
	if err != nil {
		return nil, fmt.Errorf("%w: the vault's address: %w", fs.ErrInvalid, err)
	}
	c.ClearToken() // which is read when it is needed
	u, err := url.Parse(c.Address())
	if err != nil {
		return nil, fmt.Errorf("%w: the vault's address: %w", fs.ErrInvalid, err)
	}
	d.named = hostPort(u)
	cfg.HttpClient.Transport = &bounded{t, life}
	return c, nil
}

// hostPort returns what is dialled for a URL.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// A dialer dials the vault that is named, wherever it is. A vault may redirect to
// another, as one that stands by does; to a private address only where it is at one.
type dialer struct {
	named  string      // HOST:PORT
	inside atomic.Bool // the named one was found at a private address
	net.Dialer
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if address != d.named && !d.inside.Load() {
		return guard.Public.Dial(ctx, network, address)
	}
	c, err := d.DialContext(ctx, network, address)
	if err == nil && address == d.named {
		at, _ := netip.ParseAddrPort(c.RemoteAddr().String())
		d.inside.Store(guard.Public.Check(at.Addr()) != nil)
	}
	return c, err
}

// bounded has requests end with life, and answers be of maxAnswer bytes at most.
type bounded struct {
	http.RoundTripper
	life context.Context
}

func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	resp, err := b.RoundTripper.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	resp.Body.Close()
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("%w: an answer of more than %d bytes", fs.ErrTooLarge, maxAnswer)
	}
	if err != nil {
		return nil, err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}
