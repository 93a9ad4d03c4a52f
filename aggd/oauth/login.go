package oauth

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"hutch/fs"
)

// A Flow is how a person logs in.
type Flow string

// The flows.
const (
	Browser Flow = "browser" // of this machine
	Device  Flow = "device"  // any other, where the person writes a code
)

// A Pending is what a login waits for.
type Pending struct {
	URL     string // for the person to open
	Code    string // to write there; "" where it is none
	Expires time.Time
}

// ErrUnderWay is the error of a second login at a time.
var ErrUnderWay = fmt.Errorf("%w: a login is under way: logout ends it", fs.ErrBusy)

// Login logs in: it gives tell what the person has to do, waits for that, and keeps
// the tokens that come of it, in place of those that there were. It fails with the
// reason, at the latest when Config.Timeout is over.
func (c *Client) Login(ctx context.Context, flow Flow, tell func(Pending)) error {
	select {
	case c.login <- struct{}{}:
		defer func() { <-c.login }()
	default:
		return ErrUnderWay
	}
	limit := c.cfg.timeout()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: nobody has logged in within %v", fs.ErrTimedOut, limit))
	defer cancel()
	client := c.client(ctx)
	f, err := c.discover(ctx, client)
	if err != nil {
		return err
	}
	var g *grant
	if flow == Device {
		g, err = c.onDevice(ctx, client, f, tell)
	} else {
		g, err = c.inBrowser(ctx, client, f, tell)
	}
	if err != nil {
		return err
	}
	if err := take(ctx, c.turn); err != nil {
		return err
	}
	defer func() { <-c.turn }()
	return c.keep(g)
}

// settings returns what x/oauth2 has to know.
func (f *finding) settings(is identity, back string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: is.ID, ClientSecret: is.Secret, RedirectURL: back,
		Endpoint: oauth2.Endpoint{AuthURL: f.Authorize, TokenURL: f.Token, DeviceAuthURL: f.Device, AuthStyle: is.Style},
	}
}

// asked returns the parameters by which a person is asked.
func (c *Client) asked(f *finding) []oauth2.AuthCodeOption {
	set := []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("resource", f.resource)}
	if len(f.scopes) > 0 {
		name := scopeParam
		if c.cfg.ScopeParam != "" {
			name = c.cfg.ScopeParam
		}
		set = append(set, oauth2.SetAuthURLParam(name, strings.Join(f.scopes, " ")))
	}
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Params)) {
		set = append(set, oauth2.SetAuthURLParam(name, c.cfg.Params[name]))
	}
	return set
}

// inBrowser has a person log in in a browser of this machine.
func (c *Client) inBrowser(ctx context.Context, client *http.Client, f *finding, tell func(Pending)) (*grant, error) {
	if err := f.checkPKCE(); err != nil {
		return nil, err
	}
	host := "127.0.0.1"
	if c.cfg.ClientID != "" && c.cfg.CallbackPort != 0 { // as whoever has registered it has written it
		host = "localhost"
	}
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	back, err := listen(host, c.cfg.CallbackPort, state)
	if err != nil {
		return nil, err
	}
	defer back.close()
	is, err := c.identity(ctx, client, f, back.URL)
	if err != nil {
		return nil, err
	}
	set := f.settings(is, back.URL)
	expires, _ := ctx.Deadline()
	tell(Pending{URL: set.AuthCodeURL(state, append(c.asked(f), oauth2.S256ChallengeOption(verifier))...), Expires: expires})
	got, err := back.wait(ctx)
	if err != nil {
		return nil, err
	}
	code, err := f.code(got)
	if err != nil {
		return nil, err
	}
	t, err := set.Exchange(context.WithValue(ctx, oauth2.HTTPClient, client), code,
		oauth2.VerifierOption(verifier), oauth2.SetAuthURLParam("resource", f.resource))
	if err != nil {
		return nil, c.refusal(ctx, &f.authority, err)
	}
	return c.newGrant(f, is, t)
}

// onDevice has a person log in wherever they want, by a code.
func (c *Client) onDevice(ctx context.Context, client *http.Client, f *finding, tell func(Pending)) (*grant, error) {
	if f.Device == "" {
		return nil, fmt.Errorf("%w: %s has no login by a code: write login", fs.ErrUnsupported, &f.authority)
	}
	is, err := c.identity(ctx, client, f, "")
	if err != nil {
		return nil, err
	}
	set := f.settings(is, "")
	asking := context.WithValue(ctx, oauth2.HTTPClient, client)
	d, err := set.DeviceAuth(asking, c.asked(f)...)
	if err != nil {
		return nil, c.refusal(ctx, &f.authority, err)
	}
	if err := checkDevice(d); err != nil {
		return nil, fmt.Errorf("%s: %w", &f.authority, err)
	}
	expires, _ := ctx.Deadline()
	if !d.Expiry.IsZero() && d.Expiry.Before(expires) {
		expires = d.Expiry
	}
	ctx, cancel := context.WithDeadlineCause(ctx, expires, fmt.Errorf("%w: nobody has logged in before the code ended", fs.ErrTimedOut))
	defer cancel()
	d.Expiry = time.Time{} // which ctx has
	tell(Pending{URL: d.VerificationURI, Code: d.UserCode, Expires: expires})
	t, err := set.DeviceAccessToken(context.WithValue(ctx, oauth2.HTTPClient, client), d, oauth2.SetAuthURLParam("resource", f.resource))
	if err != nil {
		return nil, c.refusal(ctx, &f.authority, err)
	}
	return c.newGrant(f, is, t)
}

// maxCode is how long a code is at most that a person is to write.
const maxCode = 64

// checkDevice says why a person cannot do what an authorization server says.
func checkDevice(d *oauth2.DeviceAuthResponse) error {
	if err := CheckURL(d.VerificationURI); err != nil {
		return fmt.Errorf("%w: verification_uri: %w", fs.ErrInvalid, err)
	}
	if d.DeviceCode == "" || d.UserCode == "" || len(d.UserCode) > maxCode || strings.ContainsFunc(d.UserCode, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("%w: it gives no code that a person could write", fs.ErrInvalid)
	}
	return nil
}
