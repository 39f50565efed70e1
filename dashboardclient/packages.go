package dashboardclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/hashicorp/go-retryablehttp"
)

// MaxPackageSize is the largest package that Ray's dashboard accepts, in bytes: its HTTP server refuses bodies of 100 MiB and more
// (DASHBOARD_CLIENT_MAX_SIZE; measured on 2.9.3 and 2.60.0), far below the 500 MiB that the GCS stores (GCS_STORAGE_MAX_SIZE).
const MaxPackageSize = 100<<20 - 1

// PackageExists reports whether the cluster has the package ("gcs://_ray_pkg_HASH.zip"), and protects it from Ray's garbage
// collection for the next ten minutes.
func (c *Client) PackageExists(ctx context.Context, uri string) (bool, error) {
	path, err := packagePath(uri)
	if err != nil {
		return false, err
	}
	err = c.call(ctx, request{doing: "look for package " + uri, path: path}, nil)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// UploadPackage sends the file at path under this URI, unless the cluster has it already (then uploaded is false). progress, if
// given, is called with the bytes sent so far, from another goroutine, never after return; a retry starts again at 0.
// A file above MaxPackageSize gives ErrTooLarge before anything is sent.
func (c *Client) UploadPackage(ctx context.Context, uri, path string, progress func(sent, total int64)) (uploaded bool, err error) {
	endpoint, err := packagePath(uri)
	if err != nil {
		return false, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return false, fmt.Errorf("upload package: %w", err)
	}
	if info.Size() > MaxPackageSize {
		return false, &tooLargeError{uri: uri, size: info.Size()}
	}
	if exists, err := c.PackageExists(ctx, uri); err != nil || exists {
		return false, err
	}
	body := newUpload(path, info.Size(), progress)
	defer body.Close()
	err = c.call(ctx, request{
		doing: "upload package " + uri, method: http.MethodPut, path: endpoint, body: retryablehttp.ReaderFunc(body.Open),
	}, nil)
	return err == nil, err
}

// packagePath turns "gcs://NAME" into the path of its resource.
func packagePath(uri string) ([]string, error) {
	protocol, name, found := strings.Cut(uri, "://")
	if !found || protocol != "gcs" || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("package %q is not of the form gcs://NAME.zip", uri)
	}
	return []string{"api", "packages", protocol, name}, nil
}

type tooLargeError struct {
	uri  string
	size int64
}

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("package %s has %d MiB, and Ray's dashboard takes less than %d MiB: exclude data (.rayignore) or put it on storage that the nodes reach",
		e.uri, e.size>>20, (MaxPackageSize+1)>>20)
}

func (e *tooLargeError) Is(target error) bool { return target == ErrTooLarge }
