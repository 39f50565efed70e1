package dashboardclient

import "context"

// MaxPackageSize is the largest package that Ray stores (GCS_STORAGE_MAX_SIZE), in bytes.
const MaxPackageSize = 500 << 20

// PackageExists reports whether the cluster has the package ("gcs://_ray_pkg_HASH.zip"), and protects it from Ray's garbage
// collection for the next ten minutes.
func (c *Client) PackageExists(ctx context.Context, uri string) (bool, error) { panic("later") }

// UploadPackage sends the file at path under this URI, unless the cluster has it already (then uploaded is false). progress, if
// given, is called with the bytes sent so far, from another goroutine, never after return; a repeated try begins again at 0.
// A file above MaxPackageSize gives ErrTooLarge before anything is sent.
func (c *Client) UploadPackage(ctx context.Context, uri, path string, progress func(sent, total int64)) (uploaded bool, err error) {
	panic("later")
}
