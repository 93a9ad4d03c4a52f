// Package vault reads secrets from OpenBao or HashiCorp Vault, by the HTTP API that
// both have: KV version 2 and 1, and whatever else answers a read, with a lease or
// without.
//
// Where the vault is and how it is logged in to, the environment says, as to the
// vault's own command: BAO_ADDR, BAO_NAMESPACE, BAO_CACERT and the like, or the same
// with VAULT_ (credentials.go has what it is logged in with).
package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openbao/openbao/api/v2"
	"golang.org/x/sync/singleflight"

	"hutch/fs"
)

const (
	requestTime = 5 * time.Second  // for one request
	getTime     = 10 * time.Second // for all that a Get takes
	endTime     = 2 * time.Second  // for giving back what was lent
)

// A Vault is one that is connected to when something is first asked of it. Its
// methods may be called concurrently.
type Vault struct {
	life    context.Context // ends with Close
	end     context.CancelFunc
	tasks   sync.WaitGroup
	flights singleflight.Group // reads under way, by path

	turn  chan struct{} // holds a token while somebody logs in
	login login         // guarded by turn

	mu     sync.Mutex // guards what follows
	client *api.Client
	leases map[string]*lease // by path
	closed bool
}

// New returns the vault that the environment names, which may be none.
func New() *Vault {
	v := &Vault{turn: make(chan struct{}, 1), leases: make(map[string]*lease)}
	v.life, v.end = context.WithCancel(context.Background())
	return v
}

var errClosed = fmt.Errorf("%w: the vault is closed", fs.ErrIO)

// Get returns the secret of a name, MOUNT/PATH/KEY: the value of KEY in what is at
// PATH of the engine at MOUNT. It takes 10 seconds at most.
func (v *Vault) Get(ctx context.Context, name string) (string, error) {
	cut := strings.LastIndexByte(name, '/')
	if cut < 0 {
		return "", fmt.Errorf("%w: write MOUNT/PATH/KEY", fs.ErrInvalid)
	}
	path, key := name[:cut], name[cut+1:]
	data, ok := v.leased(path)
	if !ok {
		var err error
		if data, err = v.read(ctx, path); err != nil {
			return "", err
		}
	}
	value, ok := data[key]
	if !ok {
		return "", fmt.Errorf("%w: %s has no key %s", fs.ErrNotExist, path, key)
	}
	return text(value)
}

// text returns a value as a text, which a number has, too.
func text(value any) (string, error) {
	switch value := value.(type) {
	case string:
		return value, nil
	case json.Number, bool:
		return fmt.Sprint(value), nil
	}
	return "", fmt.Errorf("%w: the value is neither a text nor a number", fs.ErrInvalid)
}

// read reads what is at path. Who wants the same meanwhile gets the same: of two
// leases the user's name would be one's and the password the other's.
func (v *Vault) read(ctx context.Context, path string) (map[string]any, error) {
	done := v.flights.DoChan(path, func() (any, error) {
		if !v.begin() {
			return nil, errClosed
		}
		defer v.tasks.Done()
		ctx, cancel := context.WithTimeout(v.life, getTime)
		defer cancel()
		data, err := v.readNow(ctx, path)
		return data, explain(err, path)
	})
	select {
	case r := <-done:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(map[string]any), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// begin counts a task that Close waits for, or says that the vault is closed.
func (v *Vault) begin() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.closed {
		v.tasks.Add(1)
	}
	return !v.closed
}

// readNow reads with the token that there is, and once more with another where
// that one is refused and there is another to be had.
func (v *Vault) readNow(ctx context.Context, path string) (map[string]any, error) {
	c, err := v.connect()
	if err != nil {
		return nil, err
	}
	token, err := v.authenticate(ctx, c, "")
	if err != nil {
		return nil, err
	}
	data, err := v.readPath(ctx, c, path)
	if !isRefused(err) {
		return data, err
	}
	if again, none := v.authenticate(ctx, c, token); none != nil || again == token {
		return nil, err
	}
	return v.readPath(ctx, c, path)
}

func (v *Vault) readPath(ctx context.Context, c *api.Client, path string) (map[string]any, error) {
	at, isKV2, err := locate(ctx, c, path)
	if err != nil {
		return nil, err
	}
	s, err := c.Logical().ReadWithContext(ctx, at)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return nil, fmt.Errorf("%w: nothing is at %s", fs.ErrNotExist, path)
	case !isKV2:
		v.keep(c, path, s)
		return s.Data, nil
	}
	data, ok := s.Data["data"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%w: what was at %s is deleted", fs.ErrNotExist, path)
	}
	return data, nil
}

// locate returns where a path is read, and whether that is a KV engine of version
// 2. The vault says at which mount the path is; where it does not, the first word is
// one of version 2.
func locate(ctx context.Context, c *api.Client, path string) (at string, isKV2 bool, err error) {
	mount, rest, _ := strings.Cut(path, "/")
	isKV2 = true
	s, err := c.Logical().ReadWithContext(ctx, "sys/internal/ui/mounts/"+path)
	switch {
	case isRefused(err) || err == nil && s == nil:
	case err != nil:
		return "", false, err
	default:
		where, _ := s.Data["path"].(string)
		found := false
		if mount = strings.Trim(where, "/"); mount != "" {
			rest, found = strings.CutPrefix(path, mount+"/")
		}
		if !found {
			return "", false, fmt.Errorf("%w: %s is a mount: write MOUNT/PATH/KEY", fs.ErrInvalid, path)
		}
		options, _ := s.Data["options"].(map[string]any)
		isKV2 = s.Data["type"] == "kv" && options["version"] == "2"
	}
	if isKV2 {
		return mount + "/data/" + rest, true, nil
	}
	return path, false, nil
}

// connect returns the client of the vault.
func (v *Vault) connect() (*api.Client, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.client != nil {
		return v.client, nil
	}
	c, err := newClient(v.life)
	if err == nil {
		v.client = c
	}
	return c, err
}

// Close gives back what was lent, which takes 2 seconds at most, and waits until
// nothing of the vault is under way.
func (v *Vault) Close() {
	v.mu.Lock()
	v.closed = true
	c, leases := v.client, slices.Collect(maps.Values(v.leases))
	v.mu.Unlock()
	if c != nil {
		ctx, cancel := context.WithTimeout(v.life, endTime)
		v.giveBack(ctx, c, leases)
		cancel()
	}
	v.end()
	v.tasks.Wait()
}

// isRefused says whether the vault has answered that it is not allowed.
func isRefused(err error) bool { return statusOf(err) == 403 }

// statusOf returns what the vault answered, 0 if it did not.
func statusOf(err error) int {
	var e *api.ResponseError
	if errors.As(err, &e) {
		return e.StatusCode
	}
	return 0
}
