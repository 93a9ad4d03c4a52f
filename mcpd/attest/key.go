package attest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"hutch/fs"
	"hutch/mcpd/seal"
)

// A Key is the host's, with which the tokens of all its VMs are signed. It is
// made when it is first needed, in a file that only the host's user reads.
type Key struct {
	path string

	mu  sync.Mutex         // guards what follows
	key ed25519.PrivateKey // nil: nobody needed it yet
}

// NewKey returns the key in the file at path.
func NewKey(path string) *Key { return &Key{path: path} }

const keyType = "PRIVATE KEY"

func (k *Key) get() (ed25519.PrivateKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key != nil {
		return k.key, nil
	}
	text, err := os.ReadFile(k.path)
	if errors.Is(err, os.ErrNotExist) {
		return k.make()
	}
	if err != nil {
		return nil, err
	}
	if k.key, err = parseKey(text); err != nil {
		return nil, fmt.Errorf("%w: %s: %w: remove it for a new one", fs.ErrIO, filepath.Base(k.path), err)
	}
	return k.key, nil
}

func (k *Key) make() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := fs.WriteFile(k.path, pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: der}), true); err != nil {
		return nil, err
	}
	k.key = key
	return key, nil
}

func parseKey(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != keyType {
		return nil, errors.New("no private key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	if of, ok := key.(ed25519.PrivateKey); ok {
		return of, nil
	}
	return nil, errors.New("no private key of Ed25519")
}

// seal returns the token with the claims.
func (k *Key) seal(c *claims) (string, error) {
	key, err := k.get()
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(c).Serialize()
}

// open returns the claims of a token that the key has signed. That of another
// is refused.
func (k *Key) open(token string) (*claims, error) {
	key, err := k.get()
	if err != nil {
		return nil, err
	}
	signed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return nil, seal.Refuse("", seal.BadToken, "the security token is no JWT of EdDSA")
	}
	var c claims
	if err := signed.Claims(key.Public(), &c); err != nil {
		return nil, seal.Refuse("", seal.BadToken, "the security token is not signed by this host")
	}
	if c.Issuer != issuer || !c.Audience.Contains(audience) || c.Expiry == nil || len(c.key()) != ed25519.PublicKeySize {
		return nil, seal.Refuse("", seal.BadToken, "the security token is for something else")
	}
	return &c, nil
}

// newID returns a name that nothing else has.
func newID() string { return strings.ToLower(rand.Text()) }
