package s3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/minio/minio-go/v7"

	"hutch/aggd/storage"
)

// told says in our words what some of a server's codes mean.
var told = map[string]string{
	"AccessDenied":          "the keys are refused",
	"InvalidAccessKeyId":    "the keys are refused",
	"SignatureDoesNotMatch": "the keys are refused",
	"NoSuchBucket":          "there is no such bucket",
	"RequestTimeTooSkewed":  "the clocks differ",
	"SlowDown":              "the server has too much to do",
}

// plain returns an error that can be told to a guest. Of what the server said it
// has the code alone: the text may name keys and buckets.
func plain(err error) error {
	if err == nil {
		return nil
	}
	if code := minio.ToErrorResponse(err).Code; errors.As(err, new(minio.ErrorResponse)) && code != "" {
		return coded(code)
	}
	var dial *net.OpError
	var cert *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("storage: no answer within %v", storage.Patience)
	case errors.Is(err, context.Canceled):
		return errors.New("storage: cancelled")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("storage: the server refuses connections")
	case errors.As(err, new(*net.DNSError)):
		return errors.New("storage: the server's name is not known")
	case errors.As(err, &cert):
		return errors.New("storage: the server's certificate is not trusted")
	case errors.As(err, &dial), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("storage: the connection to the server broke")
	}
	return errors.New("storage: the server's answer is not understood")
}

// errChanged is the error of what is not as the request has it.
var errChanged = errors.New("storage: the file has just been changed (PreconditionFailed)")

// coded returns the error of a server's code.
func coded(code string) error {
	switch code {
	case minio.NoSuchKey:
		return syscall.ENOENT
	case minio.PreconditionFailed:
		return errChanged
	}
	letters := func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') }
	if len(code) > 64 || strings.ContainsFunc(code, letters) {
		return errors.New("storage: the server has an error without a name")
	}
	if text, ok := told[code]; ok {
		return fmt.Errorf("storage: %s (%s)", text, code)
	}
	return fmt.Errorf("storage: the server says %s", code)
}
